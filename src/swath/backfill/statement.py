"""The statement that changes a slice, from what the user wrote."""

import re
from collections.abc import Iterator

from swath.core.errors import UsageError
from swath.tables.table import Fragment, Key, Table

# What a colon or a parenthesis means nothing in: quoted texts and names, dollar quotes, comments, casts.
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
_TARGET = re.compile(rf"{_GAP}({_NAME}|\(\s*{_NAME}(?:\s*,\s*{_NAME})*\s*\))\s*=", re.DOTALL)


def set_statement(table: Table, changes: str, where: str | None, *, after: Key | None, upto: Key) -> Fragment:
    """`--set`: an UPDATE of the rows of a slice."""
    within = table.build_slice_condition(after=after, upto=upto)
    # On lines of their own: what the user wrote may end with a comment, which must not swallow the slice.
    condition = f" AND (\n{_plain(where, table)}\n)" if where else ""
    name = _plain(table.description.quoted, table)
    return Fragment(f"UPDATE {name} SET\n{_plain(changes, table)}\nWHERE {within.sql}{condition}", within.values)


def sql_statement(table: Table, sql: str, *, lo: Key, hi: Key) -> Fragment:
    """`--sql`: with the first and the last key of a slice in the places of :lo and :hi."""
    keys = {":lo": table.build_key_values(lo), ":hi": table.build_key_values(hi)}
    text, values = "", ()
    for part, name in _parts(sql):
        text += _plain(part, table)
        if name is not None:
            text += keys[name].sql
            values += keys[name].values
    return Fragment(text, values)


def check_sql(sql: str) -> None:
    """Both ends have to be in it: without them every slice would be the whole table."""
    found = {name for _, name in _parts(sql)}
    if missing := [name for name in (":lo", ":hi") if name not in found]:
        raise UsageError(
            f"--sql has no {' and no '.join(missing)}: it is run for one slice of the table after the other, as in "
            '"update users set … where id between :lo and :hi"'
        )


def check_set(changes: str) -> None:
    check_closed("--set", changes)
    if not re.search(r"=", changes):
        raise UsageError(f'--set {changes!r} sets nothing: write it like "email_lower = lower(email)"')


def check_key(table: Table, changes: str) -> None:
    """A row whose key is changed may move into a slice that is yet to come, and be changed again there."""
    key = {name.lower() for name in table.description.key_names}
    if moved := [name for name in _targets(changes) if name.lower() in key]:
        raise UsageError(
            f"--set changes {', '.join(moved)}, the key of {table.description.name}. A row whose key changes may be "
            "changed twice or skipped. Choose another --key, or use --sql"
        )


def _targets(changes: str) -> Iterator[str]:
    """The columns that are set: a name, or several in parentheses, at the beginning of each part or after a comment."""
    depth, starts = 0, [0]
    for token in _tokens(changes):
        if token["parenthesis"]:
            depth += 1 if token[0] == "(" else -1
        elif token["comma"] and depth == 0:
            starts.append(token.end())
    for start in starts:
        if found := _TARGET.match(changes, start):
            for name in found[1].strip("()").split(","):
                yield name.strip().strip('"`[]')


def check_closed(flag: str, sql: str) -> None:
    """What the user wrote stands inside of a statement of ours, and must not break out of it."""
    depth = 0
    for token in _tokens(sql):
        if token["parenthesis"]:
            depth += 1 if token[0] == "(" else -1
        if depth < 0:
            break
    if depth != 0:
        what = "closes a parenthesis that it did not open" if depth < 0 else "does not close a parenthesis"
        raise UsageError(f"{flag} {sql!r} {what}")


def _parts(sql: str) -> Iterator[tuple[str, str | None]]:
    """The text between the placeholders, each with the placeholder behind it."""
    start = 0
    for token in _tokens(sql):
        if token["name"]:
            yield sql[start : token.start()], token["name"]
            start = token.end()
    yield sql[start:], None


def _tokens(sql: str) -> Iterator[re.Match[str]]:
    place = 0
    while (token := _TOKENS.search(sql, place)) is not None:
        yield token
        place = _end_of_comment(sql, token.start()) if token["comment"] else token.end()


def _end_of_comment(sql: str, start: int) -> int:
    """PostgreSQL's comments nest."""
    depth = 0
    for mark in re.compile(r"/\*|\*/").finditer(sql, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(sql)


def _plain(sql: str, table: Table) -> str:
    """SQL in which nothing is bound. psycopg wants its percent signs doubled."""
    return sql.replace("%", "%%") if table.kind == "postgresql" else sql
