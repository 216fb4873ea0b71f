"""Canonical forms as expressions of PostgreSQL.

They need the settings of `BEGIN_READING`: ISO dates, UTC, and floats in full.
"""

from collections.abc import Sequence
from typing import NamedTuple

from swath.tables.canonical.column_types import PostgresType
from swath.tables.canonical.form import ColumnForm
from swath.tables.identifiers import quote_identifier

MAX_JSON_BYTES = 100_000  # Python parses a longer text of type json
# jsonb cannot hold U+0000, half a surrogate pair, or a number with too many digits.
_NOT_JSONB = r"E'\\\\u(0000|[dD][89a-fA-F])|[0-9][eE][+-]?[0-9]{3}|[0-9]{255}'"
# A string, which stays as it is, or zeros at the end of a fraction.
_ZEROS = r"""E'("(?:[^"\\\\]|\\\\.)*")|(\\.[0-9]*[1-9])0+(?![0-9])|\\.0+(?![0-9])'"""
_MAYBE_ZEROS = r"E'\\.[0-9]*0(?:[^0-9]|$)'"


# Values of these classes are written without control characters.
_PLAIN = ("number", "boolean", "bytes", "uuid", "json", "date", "time", "timestamp", "timestamptz")
SEPARATOR, ESCAPED_SEPARATOR = r"E'\x01'", r"E'\x01\x02'"
MAX_ARGUMENTS = 90  # of a function; PostgreSQL's limit is 100


class PostgresForm(NamedTuple):
    """A class, and an expression for the text; NULL for NULL."""

    tag: str
    text: str

    @property
    def sql(self) -> str:
        return f"{_quote_literal(self.tag + ':')} || {self.text}"

    @property
    def is_plain(self) -> bool:
        return self.tag in _PLAIN


def build_row_text(forms: Sequence[ColumnForm]) -> str:
    """Return an expression for all canonical texts of a row, joined unambiguously. ROW() is slower."""
    parts = [
        f"coalesce({form.sql if form.is_plain else f'replace({form.sql}, {SEPARATOR}, {ESCAPED_SEPARATOR})'}, '')"
        for form in forms
    ]
    while len(parts) > 1:
        parts = [
            f"concat_ws({SEPARATOR}, {', '.join(parts[start : start + MAX_ARGUMENTS])})"
            for start in range(0, len(parts), MAX_ARGUMENTS)
        ]
    return parts[0]


def build_form(type_: PostgresType, value: str) -> PostgresForm:
    """Return the form of an expression of some type."""
    match type_.kind:
        case "enum":
            return PostgresForm("text", f"CAST({value} AS text)")
        case "array":
            return _build_array(type_.parts[0], value)
        case "composite":
            return _build_composite(type_, value)
        case "range":
            return _build_range(type_.parts[0], value)
        case "multirange":
            form = build_form(type_.parts[0], "s.v")
            return PostgresForm(f"multi{form.tag}", _build_list(form, value))
        case "base":
            return _build_base(type_, value)


def build_json_form(value: str) -> PostgresForm:
    """Return the form of an array as JSON."""
    return PostgresForm("json", _write_jsonb(f"to_jsonb({value})"))


def build_utc_form(value: str) -> PostgresForm:
    """Return the form of a timestamp without a time zone as one in UTC."""
    return PostgresForm("timestamptz", f"CAST({value} AT TIME ZONE 'UTC' AS text)")


def build_text_form(value: str) -> PostgresForm:
    return PostgresForm("text", f"CAST({value} AS text)")


def build_output_form(value: str) -> PostgresForm:
    """Return the text that clients see. A cast may write another one: it adds /32 to an inet."""
    return PostgresForm("text", f"CASE WHEN num_nonnulls({value}) > 0 THEN concat({value}) END")


def _build_base(type_: PostgresType, value: str) -> PostgresForm:
    text, class_ = f"CAST({value} AS text)", type_.value_class
    match type_.name:
        case "numeric":
            return PostgresForm(class_, f"CAST(trim_scale({value}) AS text)")
        case "float4" | "float8":
            return PostgresForm(class_, _write_float(value))
        case "bytea":
            return PostgresForm(class_, f"encode({value}, 'hex')")
        case "jsonb":
            return PostgresForm(class_, _write_jsonb(value))
        case "json":
            unsafe = f"octet_length({text}) > {MAX_JSON_BYTES} OR {text} ~ {_NOT_JSONB}"
            return PostgresForm(
                class_, f"CASE WHEN {unsafe} THEN ' ' || {text} ELSE {_write_jsonb(f'CAST({value} AS jsonb)')} END"
            )
        case "money":  # its text depends on the locale
            return PostgresForm("pg.money", f"CAST(trim_scale(CAST({value} AS numeric)) AS text)")
        case _:
            return PostgresForm(f"pg.{type_.name}" if class_ == "other" else class_, text)


def _write_float(value: str) -> str:
    """Write whole numbers exactly, like `values.format_float`. Large ones are 2^k times 60 bits."""
    double = f"CAST({value} AS float8)"
    whole = f"{double} = trunc({double})"
    large = (
        "(SELECT CAST(trunc(CAST(CAST(s.f / power(2::float8, s.k) AS bigint) AS numeric) * power(2::numeric, s.k)) "
        "AS text) FROM (SELECT s.f, CAST(floor(ln(abs(s.f)) / ln(2::float8)) AS integer) - 60 AS k "
        f"FROM (SELECT {double} AS f) AS s) AS s)"
    )
    text = f"CAST({value} AS text)"
    return (
        f"CASE WHEN {whole} AND abs({double}) < 9223372036854775808::float8 "
        f"THEN CAST(CAST({double} AS bigint) AS text) "
        f"WHEN strpos({text}, 'e') = 0 THEN {text} "  # also NaN and infinity
        f"WHEN {whole} THEN {large} ELSE CAST(CAST({text} AS numeric) AS text) END"
    )


def _write_jsonb(value: str) -> str:
    text = f"CAST({value} AS text)"
    # The first two tests are several times faster than the replacement, which few values need.
    return (
        f"CASE WHEN {text} NOT LIKE '%.%0%' OR {text} !~ {_MAYBE_ZEROS} THEN {text} "
        f"ELSE regexp_replace({text}, {_ZEROS}, E'\\\\1\\\\2', 'g') END"
    )


def _build_list(form: PostgresForm, value: str) -> str:
    return (
        f"CASE WHEN {value} IS NOT NULL THEN "
        f"CAST(ARRAY(SELECT {form.text} FROM (SELECT unnest({value}) AS v) AS s) AS text) END"
    )


def _build_array(element: PostgresType, value: str) -> PostgresForm:
    """Write the bounds of each dimension, and the elements in one dimension."""
    form = build_form(element, "s.v")
    return PostgresForm(f"{form.tag}[]", f"coalesce(array_dims({value}), '') || {_build_list(form, value)}")


def _build_composite(type_: PostgresType, value: str) -> PostgresForm:
    forms = [
        build_form(part, f"({value}).{quote_identifier(name)}")
        for name, part in zip(type_.fields, type_.parts, strict=True)
    ]
    row = f"CAST(ROW({', '.join(form.text for form in forms)}) AS text)"
    # IS NULL is also true if every field is NULL.
    return PostgresForm(
        f"row({','.join(form.tag for form in forms)})", f"CASE WHEN num_nonnulls({value}) > 0 THEN {row} END"
    )


def _build_range(subtype: PostgresType, value: str) -> PostgresForm:
    lower, upper = (build_form(subtype, f"{end}({value})") for end in ("lower", "upper"))
    return PostgresForm(
        f"range({lower.tag})",
        f"CASE WHEN isempty({value}) THEN 'empty' WHEN {value} IS NOT NULL THEN "
        f"CASE WHEN lower_inc({value}) THEN '[' ELSE '(' END || CAST(ROW({lower.text}, {upper.text}) AS text) || "
        f"CASE WHEN upper_inc({value}) THEN ']' ELSE ')' END END",
    )


def _quote_literal(text: str) -> str:
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
