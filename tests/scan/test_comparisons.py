"""What `--against` takes as equal: pairs of values in columns of two tables, in one kind of database and in two."""

# ruff: noqa: E501  one line for each pair

import re
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from swath import Item, UsageError
from swath.scan.sources import table_comparison
from swath.scan.sources.source import SourceFinding
from swath.scan.sources.sync_table import KeyRange, SyncTable
from swath.tables.canonical.pairing import choose_forms
from swath.tables.canonical.relaxations import RELAXATIONS, parse_relaxations
from swath.tables.canonical.values import finish_json
from tests.conftest import Server, fresh_database
from tests.scan.comparing import Compared, compare_tables
from tests.scan.driving import ROOT, scan, settings_of


class Cell(NamedTuple):
    """A column's type, and an SQL expression for a value in it."""

    kind: str  # of the database: pg or lite
    type: str
    value: str


def pg(type_: str, value: str) -> Cell:
    return Cell("pg", type_, value)


def lite(type_: str, value: str) -> Cell:
    return Cell("lite", type_, value)


class Pair(NamedTuple):
    name: str
    one: Cell
    other: Cell
    same: bool
    loose: str = ""


def different(name: str, one: Cell, other: Cell, loose: str = "") -> Pair:
    return Pair(name, one, other, False, loose)


def equal(name: str, one: Cell, other: Cell, loose: str = "") -> Pair:
    return Pair(name, one, other, True, loose)


UID = "'0f8fad5b-d9cb-469f-a165-70867728950e'"

PAIRS = [
    # numbers
    equal("the same integer in types of two sizes", pg("int", "7"), pg("bigint", "7")),
    equal("1 and 1.00", pg("int", "1"), pg("numeric", "1.00")),
    equal("1 and the float 1", pg("int", "1"), pg("float8", "1")),
    equal("1 and 1.0 in two databases", pg("numeric", "1.0"), lite("INTEGER", "1")),
    equal("1 and the float 1 in SQLite", lite("INTEGER", "1"), lite("REAL", "1.0")),
    equal("19.99 and the float 19.99", pg("numeric(10,2)", "19.99"), lite("DECIMAL(10,2)", "19.99")),
    equal("0.1 and the float 0.1", pg("numeric", "0.1"), pg("float8", "0.1")),
    equal("0.1 of two sizes of float", pg("real", "0.1"), pg("float8", "0.1")),
    different("0.1 and the float after it", pg("numeric", "0.1"), pg("float8", "0.10000000000000002")),
    different("numbers of 21 digits", pg("numeric", "12345678901234567890.1"), pg("numeric", "12345678901234567890.2")),
    different("a number that SQLite rounds", pg("numeric", "12345678901234567890.1"), lite("DECIMAL", "12345678901234567890.1")),
    different("2^53 + 1 and the float 2^53", pg("bigint", "9007199254740993"), pg("float8", "9007199254740992.0")),
    different("2^53 + 1 and the float 2^53 in SQLite", pg("bigint", "9007199254740993"), lite("REAL", "9007199254740992.0")),
    different("2^53 + 1 and the float 2^53, both in SQLite", lite("INTEGER", "9007199254740993"), lite("REAL", "9007199254740992.0")),
    equal("2^53 and the float 2^53", pg("bigint", "9007199254740992"), lite("REAL", "9007199254740992.0")),
    equal("2^60 and the float 2^60", pg("bigint", "1152921504606846976"), lite("REAL", "1152921504606846976.0")),
    equal("2^64 and the float 2^64", pg("numeric", "18446744073709551616"), lite("REAL", "18446744073709551616.0")),
    equal("2^64 and the float 2^64 in PostgreSQL", pg("numeric", "18446744073709551616"), pg("float8", "18446744073709551616")),
    different("10^23 and the float nearest to it", pg("numeric", "1e23"), pg("float8", "1e23")),
    equal("the largest float", pg("float8", "1.7976931348623157e308"), lite("REAL", "1.7976931348623157e308")),
    equal("the smallest float", pg("float8", "5e-324"), lite("REAL", "5e-324")),
    equal("zeros of two signs", pg("float8", "'-0'"), pg("float8", "0")),
    equal("negative zero in SQLite", pg("float8", "'-0'"), lite("REAL", "-0.0")),
    equal("NaN and NaN", pg("numeric", "'NaN'"), pg("numeric", "'NaN'")),
    equal("NaN of two types", pg("numeric", "'NaN'"), pg("float8", "'NaN'")),
    different("NaN and infinity", pg("float8", "'NaN'"), pg("float8", "'Infinity'")),
    different("NaN and NULL", pg("float8", "'NaN'"), lite("REAL", "NULL")),
    equal("infinity in two databases", pg("float8", "'-Infinity'"), lite("REAL", "-9e999")),
    different("infinities of two signs", pg("numeric", "'Infinity'"), pg("float8", "'-Infinity'")),
    equal("amounts of money", pg("money", "'1.50'::money"), pg("money", "'1.5'::money")),
    # text
    different("text '007' and 7", pg("text", "'007'"), pg("int", "7")),
    different("text '007' and 7 in two databases", pg("text", "'007'"), lite("INTEGER", "7")),
    different("7 and text '007' in two databases", pg("int", "7"), lite("TEXT", "'007'")),
    different("text '007' and 7 in SQLite", lite("TEXT", "'007'"), lite("INTEGER", "7")),
    different("'00501' and 501", pg("varchar(5)", "'00501'"), lite("INTEGER", "501")),
    different("text '7' and 7", pg("text", "'7'"), pg("int", "7")),
    equal("text of two types", pg("text", "'a'"), pg("varchar(9)", "'a'")),
    equal("text without the padding of char(n)", pg("char(5)", "'ab'"), pg("text", "'ab'")),
    equal("char(n) in two databases", pg("char(5)", "'ab'"), lite("CHAR(5)", "'ab'")),
    different("text with a space at its end", pg("text", "'ab '"), pg("text", "'ab'")),
    different("letter case under NOCASE", lite("TEXT COLLATE NOCASE", "'Ab'"), lite("TEXT COLLATE NOCASE", "'aB'")),
    different("one character, written in two ways", pg("text", "U&'\\00E9'"), pg("text", "U&'e\\0301'")),
    different("empty text and NULL", pg("text", "''"), lite("TEXT", "NULL")),
    different("text with a NUL", lite("TEXT", "'a' || char(0) || 'b'"), lite("TEXT", "'a'")),
    equal("the same text with a NUL", lite("TEXT", "'a' || char(0)"), lite("TEXT", "'a' || char(0)")),
    different("bytes that are not UTF-8", lite("TEXT", "CAST(x'ff41' AS TEXT)"), lite("TEXT", "CAST(x'fe41' AS TEXT)")),
    equal("the same bytes that are not UTF-8", lite("TEXT", "CAST(x'ff' AS TEXT)"), lite("TEXT", "CAST(x'ff' AS TEXT)")),
    different("bytes that are not UTF-8, in two databases", pg("text", "U&'\\FFFD'"), lite("TEXT", "CAST(x'ff' AS TEXT)")),
    equal("an enum and its label", pg("colour", "'red'"), lite("TEXT", "'red'")),
    equal("a domain and its base type", pg("positive", "5"), pg("int", "5")),
    equal("a domain over an array", pg("names", "'{a}'"), pg("text[]", "'{a}'")),
    # booleans
    equal("booleans in two databases", pg("boolean", "true"), lite("BOOLEAN", "1")),
    equal("false in two databases", pg("boolean", "false"), lite("BOOL", "0")),
    different("true and 0", pg("boolean", "true"), lite("BOOLEAN", "0")),
    different("true and 2", pg("boolean", "true"), lite("BOOLEAN", "2")),
    different("true and 1", pg("boolean", "true"), lite("INTEGER", "1")),
    different("true and 1 in PostgreSQL", pg("boolean", "true"), pg("int", "1")),
    equal("1 in two columns of SQLite", lite("BOOLEAN", "1"), lite("INTEGER", "1")),
    equal("1 and 1 in a column declared BOOLEAN", pg("int", "1"), lite("BOOLEAN", "1")),
    different("true and the text true", pg("boolean", "true"), pg("text", "'true'")),
    # bytes
    equal("bytes in two databases", pg("bytea", "'\\x00ff'"), lite("BLOB", "x'00ff'")),
    equal("no bytes", pg("bytea", "''"), lite("BLOB", "x''")),
    different("no bytes and NULL", pg("bytea", "''"), lite("BLOB", "NULL")),
    different("bytes and text", pg("bytea", "'abc'"), lite("TEXT", "'abc'")),
    different("bytes and text in SQLite", lite("BLOB", "x'61'"), lite("BLOB", "'a'")),
    # JSON
    different("true and 1 in jsonb", pg("jsonb", "'{\"a\": true}'"), pg("jsonb", "'{\"a\": 1}'")),
    different("true and 1 in JSON of SQLite", pg("jsonb", "'{\"a\": true}'"), lite("JSON", "'{\"a\": 1}'")),
    different("jsonb null and NULL", pg("jsonb", "'null'"), pg("jsonb", "NULL")),
    different("jsonb null and NULL in SQLite", pg("jsonb", "'null'"), lite("JSON", "NULL")),
    equal("jsonb null and JSON null", pg("jsonb", "'null'"), lite("JSON", "'null'")),
    different("a string and a number", pg("jsonb", "'\"1\"'"), pg("jsonb", "'1'")),
    equal("1 and 1.00 in jsonb", pg("jsonb", "'[1, 100, 0.5]'"), pg("jsonb", "'[1.00, 1e2, 0.50]'")),
    equal("1 and 1.00 in JSON of SQLite", pg("jsonb", "'[1.00, 0]'"), lite("JSON", "'[1, -0.0]'")),
    different("1.00 in a string", pg("jsonb", "'\"1.00\"'"), pg("jsonb", "'\"1\"'")),
    different("numbers of 21 digits in jsonb", pg("jsonb", "'12345678901234567890.1'"), pg("jsonb", "'12345678901234567890.2'")),
    equal("keys in another order", pg("jsonb", "'{\"bb\": 1, \"a\": 2}'"), lite("JSON", "'{\"bb\":1,\"a\":2}'")),
    equal("json with another order, spaces and duplicates", pg("json", "'{\"b\":1, \"a\":2}'"), pg("json", "'{\"a\":0,\"b\":1,\"a\":2}'")),
    equal("json and jsonb", pg("json", "'{\"a\":\"\\u00e9\"}'"), pg("jsonb", "'{\"a\": \"é\"}'")),
    equal("json and jsonb with a surrogate pair", pg("json", "'\"\\ud83d\\ude00\"'"), pg("jsonb", "'\"😀\"'")),
    equal("json that jsonb cannot hold", pg("json", "'[\"\\u0000\", 1]'"), pg("json", "'[\"\\u0000\",1]'")),
    different("json that jsonb cannot hold, with a difference", pg("json", "'\"\\ud800\"'"), pg("json", "'\"\\ud801\"'")),
    equal("exponents in two databases", pg("jsonb", "'[1e300, 1e-300]'"), lite("JSON", "'[1E+300,0.1e-299]'")),
    different("an exponent that would fill the memory", pg("jsonb", "'[1e9]'"), lite("JSON", "'[1e999999999]'")),
    different("json with a number that jsonb cannot hold", pg("json", "'1e999999'"), pg("json", "'1e999998'")),
    equal("a JSON number, which SQLite stores as a number", pg("jsonb", "'15'"), lite("JSON", "'15'")),
    different("jsonb and text", pg("jsonb", "'{}'"), lite("TEXT", "'{}'")),
    different("jsonb and text in PostgreSQL", pg("jsonb", "'{}'"), pg("text", "'{}'")),
    equal("text that is not JSON in a column declared JSON", pg("text", "'{'"), lite("JSON", "'{'")),
    # dates and times
    equal("an instant in two time zones", pg("timestamptz", "'2026-01-02 03:04:05.5+02'"), lite("DATETIME", "'2026-01-02T01:04:05.500Z'")),
    different("instants a microsecond apart", pg("timestamptz", "'2026-01-02 03:04:05.000001Z'"), lite("DATETIME", "'2026-01-02 03:04:05Z'")),
    equal("a timestamp in two databases", pg("timestamp", "'2026-01-02 03:04'"), lite("TIMESTAMP", "'2026-01-02T03:04:00.000'")),
    different("a timestamp with a time zone and one without", pg("timestamptz", "'2026-01-02 03:04Z'"), pg("timestamp", "'2026-01-02 03:04'")),
    different("an instant and a text without a time zone", pg("timestamptz", "'2026-01-02 03:04Z'"), lite("DATETIME", "'2026-01-02 03:04:00'")),
    different("a timestamp and a column declared TEXT", pg("timestamp", "'2026-01-02 03:04:05'"), lite("TEXT", "'2026-01-02 03:04:05'")),
    equal("texts in a column declared DATETIME", pg("text", "'2026-01-02 03:04:05'"), lite("DATETIME", "'2026-01-02 03:04:05'")),
    different("two texts of one time in SQLite", lite("DATETIME", "'2026-01-02 03:04:05'"), lite("DATETIME", "'2026-01-02T03:04:05'")),
    equal("a date in two databases", pg("date", "'2026-01-02'"), lite("DATE", "'2026-01-02'")),
    different("a date and its midnight", pg("date", "'2026-01-02'"), lite("DATE", "'2026-01-02 00:00:00'")),
    different("a day that does not exist", pg("date", "'2026-03-02'"), lite("DATE", "'2026-02-30'")),
    equal("infinity as a date", pg("date", "'infinity'"), lite("DATE", "'infinity'")),
    equal("infinity as a timestamp", pg("timestamptz", "'-infinity'"), lite("DATETIME", "'-infinity'")),
    different("a year before Christ", pg("date", "'0044-03-15 BC'"), lite("DATE", "'0044-03-15'")),
    equal("a time in two databases", pg("time", "'03:04:00.5'"), lite("TIME", "'03:04:00.50'")),
    different("times in two time zones", pg("timetz", "'12:00+02'"), pg("timetz", "'10:00+00'")),
    different("1 year and 365 days", pg("interval", "'1 year'"), pg("interval", "'365 days'")),
    different("1 day and 24 hours", pg("interval", "'1 day'"), pg("interval", "'24:00:00'")),
    equal("1 year and 12 months", pg("interval", "'1 year'"), pg("interval", "'12 months'")),
    # uuid and other types
    equal("a uuid in a column declared UUID", pg("uuid", UID), lite("UUID", UID.upper())),
    different("a uuid and a text", pg("uuid", UID), lite("TEXT", UID)),
    different("a uuid and a text in PostgreSQL", pg("uuid", UID), pg("text", UID)),
    different("an address and a text", pg("inet", "'10.0.0.1'"), pg("text", "'10.0.0.1'")),
    different("an address and a network", pg("inet", "'10.0.0.0/8'"), pg("cidr", "'10.0.0.0/8'")),
    equal("bits", pg("bit(3)", "B'101'"), pg("bit(3)", "B'101'")),
    # arrays, composites and ranges
    equal("NaN in arrays", pg("float8[]", "'{NaN,1}'"), pg("float8[]", "'{NaN,1}'")),
    different("arrays with two lower bounds", pg("int[]", "'[0:1]={1,2}'"), pg("int[]", "'{1,2}'")),
    different("arrays of two shapes", pg("int[]", "'{{1,2},{3,4}}'"), pg("int[]", "'{1,2,3,4}'")),
    equal("1 and 1.0 in arrays", pg("int[]", "'{1,NULL}'"), pg("numeric[]", "'{1.0,NULL}'")),
    different("7 and text '7' in arrays", pg("int[]", "'{7}'"), pg("text[]", "'{7}'")),
    different("NULL and text NULL in arrays", pg("text[]", "'{NULL}'"), pg("text[]", "'{\"NULL\"}'")),
    different("an empty array and NULL", pg("int[]", "'{}'"), pg("int[]", "NULL")),
    different("an array and JSON", pg("int[]", "'{1}'"), lite("JSON", "'[1]'")),
    equal("1 and 1.0 in composites", pg("pair", "ROW(1.0, 'a')"), pg("pair", "ROW(1, 'a')")),
    different("a composite of NULLs and NULL", pg("pair", "ROW(NULL, NULL)"), pg("pair", "NULL")),
    different("a comma in a composite", pg("pair[]", "ARRAY[ROW(1, 'a,b')::pair]"), pg("pair[]", "ARRAY[ROW(1, 'a')::pair]")),
    equal("1 and 1.0 in ranges", pg("numrange", "'[1.0,2)'"), pg("numrange", "'[1,2.0)'")),
    different("ranges with and without their end", pg("numrange", "'[1,2)'"), pg("numrange", "'[1,2]'")),
    different("a range without an end and one that ends in infinity", pg("daterange", "'[2026-01-01,)'"), pg("daterange", "'[2026-01-01,infinity)'")),
    different("an empty range and NULL", pg("int4range", "'empty'"), pg("int4range", "NULL")),
    equal("multiranges", pg("nummultirange", "'{[1.0,2)}'"), pg("nummultirange", "'{[1,2)}'")),
    # relaxed
    equal("text '007' and 7, relaxed", pg("text", "'007'"), lite("INTEGER", "7"), "text-number"),
    equal("7 and text '7.00', relaxed", pg("int", "7"), lite("TEXT", "'7.00'"), "text-number"),
    equal("text '1e2' and 100, relaxed, in PostgreSQL", pg("text", "'1e2'"), pg("int", "100"), "text-number"),
    equal("text '007' and 7, relaxed, in SQLite", lite("TEXT", "'007'"), lite("INTEGER", "7"), "text-number"),
    different("two texts, relaxed", pg("text", "'007'"), lite("TEXT", "'7'"), "all"),
    different("text '8' and 7, relaxed", pg("text", "'8'"), pg("int", "7"), "text-number"),
    different("text '1e999999999' and 7, relaxed", pg("int", "7"), lite("TEXT", "'1e999999999'"), "text-number"),
    equal("true and text 't', relaxed", pg("boolean", "true"), lite("TEXT", "'t'"), "text-boolean"),
    equal("false and text 'False', relaxed, in PostgreSQL", pg("boolean", "false"), pg("text", "'False'"), "text-boolean"),
    equal("true and 1, relaxed", pg("boolean", "true"), lite("INTEGER", "1"), "number-boolean"),
    equal("false and 0, relaxed, in PostgreSQL", pg("boolean", "false"), pg("int", "0"), "number-boolean"),
    different("true and 2, relaxed", pg("boolean", "true"), pg("int", "2"), "number-boolean"),
    different("true and 2, all relaxed", pg("int", "2"), lite("BOOLEAN", "1"), "all"),
    equal("a timestamp and a text, relaxed", pg("timestamp", "'2026-01-02 03:04:05'"), lite("TEXT", "'2026-01-02T03:04:05'"), "text-time"),
    equal("a date and a text, relaxed, in PostgreSQL", pg("date", "'2026-01-02'"), pg("text", "'2026-01-02'"), "text-time"),
    equal("infinity and a text, relaxed", pg("date", "'infinity'"), pg("text", "'infinity'"), "text-time"),
    different("an instant and a text without a time zone, relaxed", pg("timestamptz", "'2026-01-02 03:04Z'"), lite("TEXT", "'2026-01-02 03:04'"), "text-time"),
    equal("an instant and a text, relaxed twice", pg("timestamptz", "'2026-01-02 03:04Z'"), lite("TEXT", "'2026-01-02 03:04'"), "text-time,timestamp-zone"),
    equal("an instant and a timestamp, relaxed", pg("timestamptz", "'2026-01-02 03:04Z'"), pg("timestamp", "'2026-01-02 03:04'"), "timestamp-zone"),
    equal("an instant and a column declared DATETIME, relaxed", pg("timestamptz", "'2026-01-02 03:04Z'"), lite("DATETIME", "'2026-01-02 03:04'"), "timestamp-zone"),
    equal("a timestamp and a text with a time zone, relaxed", pg("timestamp", "'2026-01-02 03:04'"), lite("DATETIME", "'2026-01-02 05:04+02'"), "timestamp-zone"),
    equal("infinity as a timestamp, relaxed", pg("timestamp", "'infinity'"), lite("DATETIME", "'infinity'"), "all"),
    equal("a number and its float, relaxed", pg("numeric", "12345678901234567890.1"), lite("DECIMAL", "12345678901234567890.1"), "number-float"),
    equal("10^23 and its float, relaxed", pg("numeric", "1e23"), pg("float8", "1e23"), "number-float"),
    equal("a double and its real, relaxed", pg("real", "0.1"), pg("float8", "0.10000000149011612"), "number-float"),
    different("integers, relaxed", pg("bigint", "9007199254740993"), lite("INTEGER", "9007199254740992"), "number-float"),
    equal("a uuid and a text, relaxed", pg("uuid", UID), lite("CHAR(32)", UID.replace("-", "")), "text-uuid"),
    equal("a uuid and a text, relaxed, in PostgreSQL", pg("uuid", UID), pg("text", UID.upper()), "text-uuid"),
    equal("jsonb and a text, relaxed", pg("jsonb", "'{\"a\": 1}'"), lite("TEXT", "'{\"a\":1.0}'"), "text-json"),
    equal("jsonb and a text, relaxed, in PostgreSQL", pg("jsonb", "'[1]'"), pg("text", "'[1.0]'"), "text-json"),
    equal("an array and JSON, relaxed", pg("int[]", "'{1,NULL}'"), lite("JSON", "'[1,null]'"), "array-json"),
    equal("an array and jsonb, relaxed", pg("text[]", "'{a}'"), pg("jsonb", "'[\"a\"]'"), "array-json"),
    equal("an array and a text, relaxed twice", pg("text[]", "'{a}'"), lite("TEXT", "'[\"a\"]'"), "array-json,text-json"),
    equal("an address and a text, relaxed", pg("inet", "'10.0.0.1'"), lite("TEXT", "'10.0.0.1'"), "text-other"),
    equal("an interval and a text, relaxed, in PostgreSQL", pg("interval", "'1 year'"), pg("text", "'1 year'"), "text-other"),
]  # fmt: skip

TYPES = (
    "CREATE TYPE colour AS ENUM ('red', 'green')",
    "CREATE TYPE pair AS (number numeric, word text)",
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    "CREATE DOMAIN names AS text[]",
)


@pytest.fixture(scope="module")
def postgres_url(postgres: Server) -> Iterator[str]:
    with fresh_database(postgres) as url:
        with psycopg.connect(url) as connection:
            for statement in TYPES:
                connection.execute(statement)
        yield url


def fill(cells: Sequence[Cell], name: str, postgres_url: str, folder: Path) -> str:
    """Create a table with one row and a column for each cell, and return its URL."""
    columns = ", ".join(f"c{number} {cell.type}" for number, cell in enumerate(cells))
    create = f"CREATE TABLE {name} (id bigint NOT NULL PRIMARY KEY, {columns})"
    insert = f"INSERT INTO {name} VALUES (1, {', '.join(cell.value for cell in cells)})"
    if cells[0].kind == "pg":
        with psycopg.connect(postgres_url) as connection:
            for statement in (f"DROP TABLE IF EXISTS {name}", create, insert):
                connection.execute(statement.encode())
        return f"{postgres_url}#{name}"
    path = folder / f"{name}.db"
    with sqlite3.connect(path) as lite_connection:
        lite_connection.execute(create)
        lite_connection.execute(insert)
    lite_connection.close()
    return f"sqlite:///{path}#{name}"


def list_examples() -> list[Pair]:
    """Return the examples of docs/scan.md: each with its verdict, and those that a relaxation makes equal."""
    found: list[Pair] = []
    sides = {"PostgreSQL": "pg", "SQLite": "lite"}
    for kind, type_, value, *rest in EXAMPLE.findall(PAGE):
        other_kind, other_type, other_value, verdict, loose = rest
        cells = Cell(sides[kind], type_, value), Cell(sides[other_kind], other_type, other_value)
        name = f"{type_} {value} and {other_type} {other_value}"
        found.append(Pair(name, *cells, verdict == "equal"))
        if loose:
            found.append(Pair(f"{name}, relaxed", *cells, True, loose))
    return found


EXAMPLE = re.compile(
    r"^\| (PostgreSQL|SQLite) `(.+?)` `(.+?)` \| (PostgreSQL|SQLite) `(.+?)` `(.+?)` \| (equal|different) \| (?:`(.+?)` )?\|$",
    re.MULTILINE,
)
PAGE = (ROOT / "docs/scan.md").read_text(encoding="utf-8")
EXAMPLES = list_examples()
ALL_PAIRS = [*PAIRS, *EXAMPLES]


class Comparison(NamedTuple):
    """Pairs that one scan compares have these in common."""

    kinds: tuple[str, str]
    loose: tuple[str, ...]
    backwards: bool = False


Verdicts = Callable[[Pair, Comparison], bool]


@pytest.fixture(scope="module")
def verdicts(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """Return a function that says whether a pair is different. It compares all similar pairs at once."""
    known: dict[Comparison, set[str]] = {}

    def is_different(pair: Pair, comparison: Comparison) -> bool:
        if comparison not in known:
            similar = [each for each in ALL_PAIRS if comparison.kinds == (each.one.kind, each.other.kind)]
            cells = [each.one for each in similar], [each.other for each in similar]
            folder = tmp_path_factory.mktemp("pairs")
            tables = [fill(side, name, postgres_url, folder) for side, name in zip(cells, ("one", "two"), strict=True)]
            found = compare_tables(*tables[:: -1 if comparison.backwards else 1], loose=comparison.loose)
            (columns,) = found.columns.values()
            known[comparison] = {similar[int(column[1:])].name for column in columns}
        return pair.name in known[comparison]

    return is_different


def split(pair: Pair) -> tuple[str, ...]:
    return parse_relaxations(filter(None, pair.loose.split(",")))


@pytest.mark.parametrize("pair", ALL_PAIRS, ids=lambda pair: pair.name)
def test_values_are_equal_or_different(pair: Pair, verdicts: Verdicts) -> None:
    for backwards in (False, True):
        found = verdicts(pair, Comparison((pair.one.kind, pair.other.kind), split(pair), backwards))
        assert found is not pair.same


RELAXED = [pair for pair in PAIRS if pair.same and pair.loose not in ("", "all")]


@pytest.mark.parametrize("pair", RELAXED, ids=lambda pair: pair.name)
def test_a_value_differs_without_its_relaxation(pair: Pair, verdicts: Verdicts) -> None:
    """Also with all the others."""
    needed, *_ = split(pair)
    for loose in ((), tuple(name for name in RELAXATIONS if name != needed)):
        assert verdicts(pair, Comparison((pair.one.kind, pair.other.kind), loose))


def test_the_documented_relaxations_are_those_that_exist() -> None:
    rows = re.findall(r"^\| `([a-z]+-[a-z]+)` \| (.+?) \|$", PAGE[PAGE.index("| relaxation |") :], re.MULTILINE)
    assert dict(rows) == dict(RELAXATIONS)
    assert {pair.loose for pair in EXAMPLES} - {""} == set(RELAXATIONS)
    assert len([pair for pair in EXAMPLES if not pair.loose]) == PAGE.count("\n| PostgreSQL `")


def test_every_relaxation_has_a_pair_in_each_direction() -> None:
    for name in RELAXATIONS:
        assert {pair.same for pair in PAIRS if name in split(pair)} == {True, False}


SAME_KIND = [pair for pair in PAIRS if pair.one.kind == pair.other.kind and not pair.loose]


@pytest.mark.parametrize("kind", ["pg", "lite"])
def test_digests_tell_values_apart(kind: str, postgres_url: str, tmp_path: Path) -> None:
    """Of each column by itself: slices with equal digests are not looked at again."""
    pairs = [pair for pair in SAME_KIND if pair.one.kind == kind]
    here = SyncTable(fill([pair.one for pair in pairs], "one", postgres_url, tmp_path), key=None)
    there = SyncTable(fill([pair.other for pair in pairs], "two", postgres_url, tmp_path), key=None)
    ours, theirs, whole = here.find_types(), there.find_types(), KeyRange(None, None)
    for number, pair in enumerate(pairs):
        name = f"c{number}"
        one, other = choose_forms(name, ours[name], theirs[name], loose=(), is_key=False)
        equal = here.digest_slice([one], whole) == there.digest_slice([other], whole)
        only_python_knows = finish_json in one.changes or finish_json in other.changes
        assert equal is pair.same or (only_python_knows and not equal), pair.name
    here.close()
    there.close()


def make(url: str, name: str, *statements: str) -> str:
    with psycopg.connect(url) as connection:
        for statement in (f"DROP TABLE IF EXISTS {name}", *statements):
            connection.execute(statement.format(name=name).encode())
    return f"{url}#{name}"


def make_lite(path: Path, *statements: str) -> str:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return f"sqlite:///{path}#t"


def test_a_finding_shows_both_values_and_names_a_relaxation(postgres_url: str, tmp_path: Path) -> None:
    here = make(
        postgres_url,
        "shown",
        "CREATE TABLE {name} (id int PRIMARY KEY, n int, b bytea, w text, j jsonb, a numeric[], o text)",
        "INSERT INTO {name} VALUES (1, 7, '\\x00ff', repeat('long', 100), '{{\"a\": [1.50]}}', '{{1.0,2}}', 'same')",
    )
    there = make_lite(
        tmp_path / "shown.db",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, n TEXT, b BLOB, w TEXT, j JSON, a TEXT, o TEXT)",
        "INSERT INTO t VALUES (1, '007', x'01', NULL, '{\"a\": true}', '[1]', 'same')",
    )
    finding = compare_tables(here, there).findings["1"]
    assert finding.message == (
        "n (number and text; see --loose text-number), b, w, j, a (number[] and text; see --loose text-json) differ"
    )
    assert finding.data["columns"] == {
        "n": ["7", "007"],
        "b": ["\\x00ff", "\\x01"],
        "w": [("long" * 100)[:200], None],
        "j": ['{"a": [1.5]}', '{"a": true}'],
        "a": ["[1:2]{1,2}", "[1]"],
    }


def test_a_relaxation_that_is_given_is_not_advised(tmp_path: Path) -> None:
    """Without a declared type, a column of SQLite has no class: text in it is never parsed."""
    here, there = (
        make_lite(
            tmp_path / f"{name}.db", "CREATE TABLE t (id INTEGER PRIMARY KEY, v)", f"INSERT INTO t VALUES (1, {value})"
        )
        for name, value in (("here", "'007'"), ("there", "7"))
    )
    said = [compare_tables(here, there, loose=loose).findings["1"].message for loose in ((), ("text-number",))]
    assert said == ["v (text and number; see --loose text-number) differs", "v (text and number) differs"]


def test_keys_match_by_value(postgres_url: str, tmp_path: Path) -> None:
    here, there = (
        make(
            postgres_url,
            name,
            "CREATE TABLE {name} (id numeric PRIMARY KEY, v int)",
            f"INSERT INTO {{name}} VALUES ({one}, 1), (2, 1)",
        )
        for name, one in (("ones", "1.0"), ("others", "1.00"))
    )
    assert compare_tables(here, there) == Compared(2, {})
    columns, row = "(id uuid PRIMARY KEY, v int)", f"({UID}, 1)"
    here = make(postgres_url, "uuids", f"CREATE TABLE {{name}} {columns}", f"INSERT INTO {{name}} VALUES {row}")
    there = make_lite(
        tmp_path / "uuids.db",
        "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v INTEGER)",
        f"INSERT INTO t VALUES {row}",
    )
    assert compare_tables(here, there) == compare_tables(there, here) == Compared(1, {})


def test_relaxations_do_not_make_two_keys_one(tmp_path: Path) -> None:
    here, there = (
        make_lite(
            tmp_path / f"{name}.db",
            "CREATE TABLE t (id DECIMAL PRIMARY KEY NOT NULL)",
            f"INSERT INTO t VALUES (9007199254740992), ({last})",
        )
        for name, last in (("here", 9007199254740993), ("there", 9007199254740994))
    )
    found = compare_tables(here, there, loose=tuple(RELAXATIONS))
    assert {key: finding.code for key, finding in found.findings.items()} == {
        "9007199254740993": "missing-there",
        "9007199254740994": "missing-here",
    }


def test_databases_in_two_encodings(postgres: Server, postgres_url: str) -> None:
    """The bytes of one text may be those of another one in the other encoding."""
    name = f"swath_test_{secrets.token_hex(6)}"
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'".encode()
        )
        try:
            create = "CREATE TABLE {name} (id int PRIMARY KEY, v text)"
            for value, columns in ((r"U&'\00C3\00A9'", {"1": {"v"}}), (r"U&'\00E9'", {})):
                here = make(postgres.dsn(name), "coded", create, f"INSERT INTO {{name}} VALUES (1, {value})")
                there = make(postgres_url, "coded", create, r"INSERT INTO {name} VALUES (1, U&'\00E9')")
                assert compare_tables(here, there).columns == columns
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def test_sqlite_files_in_two_encodings(tmp_path: Path) -> None:
    create, row = "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, w TEXT)", "INSERT INTO t VALUES (1, 'é', 'é😀')"
    here = make_lite(tmp_path / "8.db", create, row)
    there = make_lite(tmp_path / "16.db", "PRAGMA encoding = 'UTF-16le'", create, row, "UPDATE t SET w = 'e'")
    assert compare_tables(here, there).columns == {"1": {"w"}}


def test_tables_of_many_columns(postgres_url: str) -> None:
    """More than a function of PostgreSQL takes."""
    columns = ", ".join(f"c{number} int" for number in range(300))
    values = ", ".join(map(str, range(300)))
    create = f"CREATE TABLE {{name}} (id int PRIMARY KEY, {columns})"
    here, there = (
        make(postgres_url, name, create, f"INSERT INTO {{name}} VALUES (1, {values}), (2, {values})")
        for name in ("wide", "wider")
    )
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE wider SET c299 = NULL WHERE id = 2")
    assert compare_tables(here, there).columns == {"2": {"c299"}}


def test_column_boundaries_count(postgres_url: str) -> None:
    """Also if values contain what separates them in a digest."""
    rows = ("('x' || chr(1) || 'text:y', 'z')", "('x', 'y' || chr(1) || 'text:z')"), ("(NULL, 'a')", "('a', NULL)")
    for one, other in rows:
        here, there = (
            make(
                postgres_url,
                name,
                "CREATE TABLE {name} (id int PRIMARY KEY, a text, b text)",
                f"INSERT INTO {{name}} (a, b, id) SELECT a, b, 1 FROM (VALUES {row}) AS v (a, b)",
            )
            for name, row in (("bounds", one), ("limits", other))
        )
        assert compare_tables(here, there).columns == {"1": {"a", "b"}}


def test_a_scan_resumes_only_with_its_relaxations(tmp_path: Path) -> None:
    here = make_lite(
        tmp_path / "a.db", "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, '1')"
    )
    there = make_lite(
        tmp_path / "b.db", "CREATE TABLE t (id INTEGER PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)"
    )
    out = tmp_path / "out.jsonl"
    assert scan(here, out, against=there, loose=("text-number", "number-float")).proof.clean
    assert scan(here, out, against=there, loose=("number-float", "text-number")).proof.clean
    with pytest.raises(UsageError, match="--loose was text-number, number-float and is not given now"):
        scan(here, out, against=there)
    with pytest.raises(UsageError, match="--loose was text-number, number-float and is text-number now"):
        scan(here, out, against=there, loose=("text-number",))
    assert scan(here, tmp_path / "strict.jsonl", against=there).codes == {"different": 1}


def test_relaxations_that_cannot_be_used(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with pytest.raises(
        UsageError, match=r"'text-nmber' is not a relaxation. Did you mean text-number\? Known: text-number, "
    ):
        settings_of("sqlite:///a.db#t", out, against="sqlite:///b.db#t", loose=("text-nmber",))
    with pytest.raises(UsageError, match="--loose needs --against"):
        settings_of("sqlite:///a.db#t", out, check="odd", loose=("all",))
    with pytest.raises(UsageError, match="--loose is for tables"):
        scan(tmp_path, out, against=str(tmp_path), loose=("all",))
    every = settings_of("sqlite:///a.db#t", out, against="sqlite:///b.db#t", loose=("text-uuid", "all"))
    assert every.loose == tuple(RELAXATIONS)


@pytest.mark.parametrize("backwards", [False, True])
def test_large_tables_of_two_databases_are_compared_in_slices(
    backwards: bool, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bounds of a slice are keys of one database: the other one has them in a form of its own."""
    monkeypatch.setattr(table_comparison, "MAX_ROWS", 8)
    monkeypatch.setattr(table_comparison, "MAX_FETCHED", 3)
    keys = [f"00000000-0000-0000-0000-{number:012}" for number in range(50)]
    values = ", ".join(f"('{key}', {number})" for number, key in enumerate(keys))
    here = make(
        postgres_url, "sliced", "CREATE TABLE {name} (id uuid PRIMARY KEY, n int)",
        f"INSERT INTO {{name}} VALUES {values}",
    )  # fmt: skip
    there = make_lite(
        tmp_path / "sliced.db", "CREATE TABLE t (id TEXT NOT NULL PRIMARY KEY, n INTEGER)",
        f"INSERT INTO t VALUES {values}", f"UPDATE t SET n = -1 WHERE id IN ('{keys[7]}', '{keys[30]}')",
        f"DELETE FROM t WHERE id = '{keys[41]}'",
    )  # fmt: skip
    tables = (there, here) if backwards else (here, there)
    source = table_comparison.TableComparison(*tables, key=None, columns=(), loose=())
    found: dict[str, str] = {}
    try:
        source.snapshot()
        tasks = [item.payload for item in source.list_first_items({})]
        for task in tasks:
            for step in source.read(task):
                if isinstance(step, SourceFinding):
                    found[step.key] = step.finding.code
                elif isinstance(step, Item):
                    tasks.append(step.payload)
    finally:
        source.close()
    assert sorted(found) == [keys[7], keys[30], keys[41]]
    assert len(tasks) >= 50 // 8
