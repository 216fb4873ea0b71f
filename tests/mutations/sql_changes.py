"""Small changes of a file of SQL statements: comparisons, terms of a condition, the order, numbers, functions."""

import re
from collections.abc import Iterator

from tests.mutations.change import Change

# What a comment, a text or a cast contains is left alone.
_SKIPPED = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\bAS\s+MATERIALIZED\b|\{[a-z_A-Z]+\}|SET enable_\w+ TO \w+")
_NUMBER = re.compile(r"(?<![\w.:$\[])\d+(?![\w.\]])")
_REPLACED = {
    "<=": ("<", ">"),
    ">=": (">", "<"),
    "<": ("<=", ">="),
    ">": (">=", "<="),
    "<>": ("=",),
    "=": ("<>",),
    "AND": ("OR",),
    "OR": ("AND",),
    "ASC": ("DESC",),
    "DESC": ("ASC",),
    "IS NULL": ("IS NOT NULL",),
    "IS NOT NULL": ("IS NULL",),
    "NOT EXISTS": ("EXISTS",),
    "true": ("false",),
    "false": ("true",),
    "min": ("max",),
    "max": ("min",),
    "least": ("greatest",),
    "greatest": ("least",),
    "+": ("-",),
    "-": ("+",),
}
_TOKEN = re.compile(
    r"<=|>=|<>|(?<![-:=])>|(?<![:=])<|(?<![:=<>!])=(?!>)|(?<= )[+-](?= (?!0\b))"
    r"|\b(?:AND|OR|ASC|DESC|IS NULL|IS NOT NULL|NOT EXISTS|true|false|min(?=\()|max(?=\()|least|greatest)\b"
)
_ORDERED = re.compile(r"\bORDER BY [\w.]+(?= LIMIT|\)|;|\n)")
# A term on a line of its own, and the negation of what follows.
_TERM = re.compile(r"^[ ]*AND (?P<term>[^\n;]*?)(?P<end>;?)$", re.MULTILINE)
_INNER_TERM = re.compile(
    r" AND (?P<term>[\w.:{}]+ (?:=|<|<=|>|>=|<>) [\w.:{}+ ]+?)(?= AND|\)|\n|;| ORDER| LIMIT| RETURNING| FOR )"
)
_NEGATED = re.compile(r"\bNOT (?=[a-z_]+\b)")
_STATEMENT = re.compile(r"^ +PERFORM [^;]*;$", re.MULTILINE)
_CLAUSE = re.compile(r"\b(?:WHERE|AND|OR|ON|IF|WHEN|HAVING|FILTER \(WHERE)\b", re.IGNORECASE)


def list_sql_changes(text: str) -> list[Change]:
    skipped = [match.span() for match in _SKIPPED.finditer(text)]

    def is_code(start: int, end: int) -> bool:
        return not any(first < end and start < last for first, last in skipped)

    return [change for change in _changes(text) if is_code(change.start, change.end)]


def _changes(text: str) -> Iterator[Change]:
    for match in _TOKEN.finditer(text):
        if match[0] == "=" and not _is_comparison(text, match.start()):
            continue
        for new in _REPLACED[match[0]]:
            yield _change("comparison or operator", text, match.start(), match.end(), new)
    for match in _NUMBER.finditer(text):
        yield _change("constant", text, match.start(), match.end(), str(int(match[0]) + 1))
    for match in _ORDERED.finditer(text):
        yield _change("order", text, match.end(), match.end(), " DESC")
    for match in [*_TERM.finditer(text), *_INNER_TERM.finditer(text)]:
        term = match["term"]
        if term.count("(") == term.count(")") and "BETWEEN" not in text[match.start() - 60 : match.start()]:
            yield _change("removed term", text, match.start(), match.end("term"), "")
    for match in _NEGATED.finditer(text):
        yield _change("negation", text, match.start(), match.end(), "")
    for match in _STATEMENT.finditer(text):
        yield _change("removed statement", text, match.start(), match.end(), "")


def _is_comparison(text: str, start: int) -> bool:
    """Whether an equals sign compares. In a SET clause, or for an argument, it assigns."""
    clause = text.rfind("SET", 0, start)
    condition = max((match.start() for match in _CLAUSE.finditer(text, 0, start)), default=-1)
    return condition > clause


def _change(kind: str, text: str, start: int, end: int, new: str) -> Change:
    return Change(kind, text.count("\n", 0, start) + 1, start, end, new)
