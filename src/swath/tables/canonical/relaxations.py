"""The relaxations of `--loose`: which values of different types count as equal."""

from collections.abc import Iterable, Mapping

from swath import UsageError
from swath.tables.identifiers import suggest_name

RELAXATIONS: Mapping[str, str] = {
    "text-number": "text that is a number equals the number: '007' and 7, '1.50' and 1.5",
    "text-boolean": "the texts true, t, false and f equal booleans",
    "number-boolean": "1 and 0 equal true and false",
    "text-time": "text that is an ISO 8601 date, time or timestamp equals it",
    "timestamp-zone": "a timestamp without a time zone is in UTC, and equals one with a time zone",
    "number-float": "a number equals the float that it is rounded to",
    "text-uuid": "text that is a UUID, with or without hyphens, equals it",
    "text-json": "text that is JSON equals the JSON value",
    "array-json": "an array of PostgreSQL equals the JSON array",
    "text-other": "any other type of PostgreSQL, such as inet or interval, equals its text",
}
ALL = "all"


def parse_relaxations(names: Iterable[str]) -> tuple[str, ...]:
    """Return relaxations in their own order. Raise UsageError for an unknown name."""
    asked = set(names)
    known = (*RELAXATIONS, ALL)
    for name in sorted(asked):
        if name not in known:
            raise UsageError(
                f"--loose {name!r:.100} is not a relaxation.{suggest_name(name, known)} Known: {', '.join(known)}"
            )
    return tuple(name for name in RELAXATIONS if ALL in asked or name in asked)
