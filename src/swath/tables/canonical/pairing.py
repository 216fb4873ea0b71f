"""Choose the canonical forms of two columns that are compared, and explain values that differ."""

from collections.abc import Collection

from swath.tables.canonical import postgres_sql, sqlite_sql
from swath.tables.canonical.column_types import TIMES, ColumnType, PostgresType, SqliteType
from swath.tables.canonical.form import Change, ColumnForm
from swath.tables.canonical.values import (
    add_zone,
    finish_json,
    make_infinity_parser,
    make_text_parser,
    number_to_boolean,
    number_to_double,
    number_to_json,
    number_to_single,
    parse_boolean,
    parse_json,
    parse_number,
    parse_time,
    parse_uuid,
)
from swath.tables.identifiers import quote_identifier

MAX_VALUE = 200  # characters of a value for people

_PARSERS = {
    "number": parse_number,
    "boolean": parse_boolean,
    "time": parse_time,
    "uuid": parse_uuid,
    "json": parse_json,
}
_DECLARED = ("time", "uuid", "json")  # SQLite stores them as text, and the declared type says so


def choose_forms(
    name: str, here: ColumnType, there: ColumnType, *, loose: Collection[str], is_key: bool
) -> tuple[ColumnForm, ColumnForm]:
    """Return the forms of a column on both sides: equal values have equal texts, and only they."""
    if is_key:  # relaxed, two keys of one side could become one
        loose = ()
    return (
        _build_form(name, here, there, loose=loose, is_key=is_key),
        _build_form(name, there, here, loose=loose, is_key=is_key),
    )


def _build_form(name: str, own: ColumnType, other: ColumnType, *, loose: Collection[str], is_key: bool) -> ColumnForm:
    changes = [*_list_parsers(own, other, loose), *_list_conversions(own, other, loose)]
    if isinstance(own, SqliteType):
        return ColumnForm(sqlite_sql.build_form(quote_identifier(name)), tuple(changes))
    form = _build_postgres_form(f"t.{quote_identifier(name)}", own, other, loose=loose, is_key=is_key)
    if own.name == "json":
        changes.insert(0, finish_json)
    return ColumnForm(form.sql, tuple(changes), form.is_plain)


def _build_postgres_form(
    value: str, own: PostgresType, other: ColumnType, *, loose: Collection[str], is_key: bool
) -> postgres_sql.PostgresForm:
    class_, in_sqlite = own.value_class, isinstance(other, SqliteType)
    if class_ == "uuid" and is_key and other.value_class == "text":  # matched by their texts
        return postgres_sql.build_text_form(value)
    if class_ == "array" and "array-json" in loose and (in_sqlite or other.value_class == "json"):
        return postgres_sql.build_json_form(value)
    if class_ == "other" and "text-other" in loose and (in_sqlite or other.value_class == "text"):
        return postgres_sql.build_output_form(value)
    if class_ == "timestamp" and "timestamp-zone" in loose and (in_sqlite or other.value_class == "timestamptz"):
        return postgres_sql.build_utc_form(value)
    return postgres_sql.build_form(own, value)


def _list_parsers(own: ColumnType, other: ColumnType, loose: Collection[str]) -> list[Change]:
    """Return how to parse text in a column: as the type that SQLite declares, or as what a relaxation allows."""
    parsers: list[Change] = []
    if isinstance(own, PostgresType) and own.value_class != "text":
        return parsers  # it holds no text
    declares = isinstance(own, SqliteType) and isinstance(other, PostgresType) and other.value_class != "text"
    for target in _list_targets(own, other, loose):
        declared = declares and own.value_class == target
        if declared and target == "boolean":
            parsers.append(number_to_boolean)
        if declared and target == "json":
            parsers.append(number_to_json)
        if (declared and target in _DECLARED) or f"text-{target}" in loose:
            parsers.append(make_text_parser(_PARSERS[target]))
            if target == "time" and isinstance(other, PostgresType):
                parsers.append(make_infinity_parser(_get_time_tag(other, loose)))
    return parsers


def _list_targets(own: ColumnType, other: ColumnType, loose: Collection[str]) -> list[str]:
    """Return the classes that text may stand for in this pair of columns."""
    for column in (own, other):
        if isinstance(column, PostgresType) and (target := _get_target(column, loose)) != "text":
            return [target] if target in _PARSERS else []
    # SQLite has no booleans: if no side is PostgreSQL's boolean, both sides have numbers.
    return sorted({own.value_class, other.value_class} & (_PARSERS.keys() - {"boolean"}))


def _get_target(column: PostgresType, loose: Collection[str]) -> str:
    class_ = column.value_class
    if class_ == "array" and "array-json" in loose:
        return "json"
    return "time" if class_ in TIMES else class_


def _get_time_tag(column: PostgresType, loose: Collection[str]) -> str:
    tag = column.value_class
    return "timestamptz" if tag == "timestamp" and "timestamp-zone" in loose else tag


def _list_conversions(own: ColumnType, other: ColumnType, loose: Collection[str]) -> list[Change]:
    """Return relaxations that do not concern text."""
    found: list[Change] = []
    if "number-boolean" in loose and any(
        isinstance(column, PostgresType) and column.value_class == "boolean" for column in (own, other)
    ):
        found.append(number_to_boolean)
    if "timestamp-zone" in loose and (isinstance(own, SqliteType) or own.value_class == "text"):
        found.append(add_zone)
    names = {column.name for column in (own, other) if isinstance(column, PostgresType)}
    if "number-float" in loose:
        if "float4" in names:
            found.append(number_to_single)
        elif "float8" in names or any(
            isinstance(column, SqliteType) and column.holds_floats for column in (own, other)
        ):
            found.append(number_to_double)
    return found


# Explain


def format_canonical(canonical: str | None) -> str | None:
    """Return a canonical text for people."""
    if canonical is None:
        return None
    tag, _, text = canonical.partition(":")
    return (("\\x" if tag == "bytes" else "") + text)[:MAX_VALUE]


def explain_difference(name: str, here: str | None, there: str | None, *, loose: Collection[str]) -> str:
    """Return the name of a column, with the classes of its values if they differ, and a relaxation that may help."""
    if here is None or there is None:
        return name
    tags = [canonical.partition(":")[0].removeprefix("pg.") for canonical in (here, there)]
    if tags[0] == tags[1]:
        return name
    relaxation = _find_relaxation({canonical.partition(":")[0] for canonical in (here, there)})
    hint = f"; see --loose {relaxation}" if relaxation and relaxation not in loose else ""
    return f"{name} ({tags[0]} and {tags[1]}{hint})"


def _find_relaxation(tags: set[str]) -> str | None:
    if tags == {"timestamp", "timestamptz"}:
        return "timestamp-zone"
    if tags == {"number", "boolean"}:
        return "number-boolean"
    if "json" in tags and any(tag.endswith("[]") for tag in tags):
        return "array-json"
    if "text" in tags:
        (other,) = tags - {"text"}
        target = "time" if other in TIMES else "json" if other.endswith("[]") else other
        if target in _PARSERS:
            return f"text-{target}"
        return "text-other" if other != "bytes" else None
    return None
