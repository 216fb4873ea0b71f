"""Build the statement for a slice from the user's --set, --where or --sql."""

import re
from collections.abc import Iterator

from swath import UsageError
from swath.tables.table import Fragment, Key, Table

# `skip` matches what may contain colons or parentheses without meaning: strings, quoted names, dollar quotes, comments
# and casts.
_TOKENS = re.compile(
    r"""
      (?P<skip> \b[eE]'(?:[^'\\]|''|\\.)*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
        | (?<![\w$])\$(?P<tag>\w*)\$.*?\$(?P=tag)\$ | --[^\n]* | ::)
    | (?P<comment> /\*)
    | (?P<name> :(?:lo|hi)\b)
    | (?P<parenthesis> [()])
    | (?P<comma> ,)
    """,
    re.VERBOSE | re.DOTALL,
)

_NAME = r'(?:"[^"]+"|`[^`]+`|\[[^\]]+\]|\w+)'
_GAP = r"(?:\s|--[^\n]*|/\*.*?\*/)*+"
_ASSIGNMENT = re.compile(rf"{_GAP}({_NAME}|\(\s*{_NAME}(?:\s*,\s*{_NAME})*\s*\))\s*=", re.DOTALL)


def build_set_statement(table: Table, changes: str, where: str | None, *, after: Key | None, upto: Key) -> Fragment:
    """Return the UPDATE of a slice for --set and --where."""
    within = table.build_slice_condition(after=after, upto=upto)
    # The user's text gets its own lines: it may end with a comment, which must not hide the slice's condition.
    condition = f" AND (\n{_escape_percent(where, table)}\n)" if where else ""
    name = _escape_percent(table.description.quoted, table)
    return Fragment(
        f"UPDATE {name} SET\n{_escape_percent(changes, table)}\nWHERE {within.sql}{condition}", within.values
    )


def build_sql_statement(table: Table, sql: str, *, lo: Key, hi: Key) -> Fragment:
    """Return the statement of --sql with :lo and :hi replaced by the slice's first and last key."""
    keys = {":lo": table.build_key_values(lo), ":hi": table.build_key_values(hi)}
    text, values = "", ()
    for part, name in _split_at_placeholders(sql):
        text += _escape_percent(part, table)
        if name is not None:
            text += keys[name].sql
            values += keys[name].values
    return Fragment(text, values)


def check_sql(sql: str) -> None:
    """Require both placeholders: without them, every slice would be the whole table."""
    found = {name for _, name in _split_at_placeholders(sql)}
    if missing := [name for name in (":lo", ":hi") if name not in found]:
        raise UsageError(
            f"--sql lacks {' and '.join(missing)}. The statement runs once per slice; write it like "
            '"update users set … where id between :lo and :hi"'
        )


def check_set(changes: str) -> None:
    check_parentheses("--set", changes)
    if not re.search(r"=", changes):
        raise UsageError(f'--set {changes!r} is not an assignment. Write it like "email_lower = lower(email)"')


def check_key_unchanged(table: Table, changes: str) -> None:
    """Refuse to set a key column: the row could move into a later slice and be changed again."""
    key = {name.lower() for name in table.description.key_names}
    if moved := [name for name in _list_assigned(changes) if name.lower() in key]:
        raise UsageError(
            f"--set changes {', '.join(moved)}, part of the key of {table.description.name}. A row whose key changes "
            "may be changed twice or skipped. Choose another --key, or use --sql"
        )


def _list_assigned(changes: str) -> Iterator[str]:
    """Yield the columns that are set. Each assignment starts with a name, or with several in parentheses."""
    depth, starts = 0, [0]
    for token in _tokenize(changes):
        if token["parenthesis"]:
            depth += 1 if token[0] == "(" else -1
        elif token["comma"] and depth == 0:
            starts.append(token.end())
    for start in starts:
        if found := _ASSIGNMENT.match(changes, start):
            for name in found[1].strip("()").split(","):
                yield name.strip().strip('"`[]')


def check_parentheses(flag: str, sql: str) -> None:
    """Require balanced parentheses: the text becomes part of a larger statement and must not break out of it."""
    depth = 0
    for token in _tokenize(sql):
        if token["parenthesis"]:
            depth += 1 if token[0] == "(" else -1
        if depth < 0:
            break
    if depth != 0:
        what = "closes a parenthesis that it did not open" if depth < 0 else "does not close a parenthesis"
        raise UsageError(f"{flag} {sql!r} {what}")


def _split_at_placeholders(sql: str) -> Iterator[tuple[str, str | None]]:
    """Yield the text between placeholders, each part with the placeholder that follows it."""
    start = 0
    for token in _tokenize(sql):
        if token["name"]:
            yield sql[start : token.start()], token["name"]
            start = token.end()
    yield sql[start:], None


def _tokenize(sql: str) -> Iterator[re.Match[str]]:
    position = 0
    while (token := _TOKENS.search(sql, position)) is not None:
        yield token
        position = _find_comment_end(sql, token.start()) if token["comment"] else token.end()


def _find_comment_end(sql: str, start: int) -> int:
    """Return where a comment ends. Comments nest in PostgreSQL."""
    depth = 0
    for mark in re.compile(r"/\*|\*/").finditer(sql, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(sql)


def _escape_percent(sql: str, table: Table) -> str:
    """Double percent signs, which are special in psycopg's statements."""
    return sql.replace("%", "%%") if table.kind == "postgresql" else sql
