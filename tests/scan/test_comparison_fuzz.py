"""Random tables are compared, and each value that swath calls different is so in the eyes of an oracle, and no other."""

# ruff: noqa: E501  tables of values

import math
import os
import random
import secrets
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from swath.scan.sources import table_comparison
from tests.scan.comparing import compare_tables
from tests.scan.comparison_oracle import POSTGRES, READING, Model, read_sqlite

SEED = int(os.environ.get("SWATH_SEED") or secrets.randbits(32))
SOAK = bool(os.environ.get("SWATH_SOAK"))
ROWS = 4_000 if SOAK else 700
COLUMNS = 26  # of each kind of table: 700 rows of them are 18,200 values, and there are six

NUMBERS = [
    "0",
    "-0",
    "1",
    "-1",
    "7",
    "007",
    "00501",
    "501",
    "1.0",
    "1.00",
    "1.5",
    "0.1",
    "0.10000000000000001",
    "0.30000000000000004",
    "0.3",
    "19.99",
    "1e2",
    "100",
    "1e-7",
    "1e23",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551616",
    "1152921504606846976",
    "12345678901234567890.1",
    "12345678901234567890.2",
    "123456.7890",
    "123456.789",
    "16777217",
    "33554433",
    "3.4e38",
    "1e308",
    "5e-324",
    "2.2250738585072014e-308",
    "NaN",
    "Infinity",
    "-Infinity",
]
WORDS = ["", " ", "a", "A", "a ", "ab", "é", "e\u0301", "NULL", "null", "true", "t", "1", "7", "007", "\x01", "a\x01text:b",
    "\x01\x02", "\\", '"', ",", "{", "{}", "[1]", '{"a": 1}', "text:a", "\u2028", "😀", "\t", "x" * 12, "2026-01-02"]  # fmt: skip
DOCUMENTS = ["null", "true", "false", "1", "1.0", "1e0", "0", "-0.0", "[]", "{}", '""', '"1"', '{"a": true}', '{"a": 1}',
    '{"a": 1.00}', '{"b": 1, "aa": 2}', '{"aa": 2, "b": 1}', '{"a": 0, "a": 1}', '["1.00"]', "[1.00, 10.010, 100]",
    "[1, 10.01, 1e2]", '"\\u00e9"', '"é"', '"\\ud83d\\ude00"', '"😀"', "12345678901234567890.1", "12345678901234567890.2",
    '"a\\u0001\\n\\"\\\\1.0"', '{"1.0": "\\\\\\"1.50", "b": [null, 2.50]}', '[[1.0], {"": 0.0}]', "9007199254740993"]  # fmt: skip
DAYS = ["2026-01-02", "2026-01-03", "2024-02-29", "2026-02-30", "0002-01-01", "9998-12-31", "1970-01-01", "infinity"]
CLOCKS = ["00:00:00", "03:04:05", "03:04:05.5", "03:04:05.500", "03:04:05.000001", "23:59:59.999999"]
ZONES = ["", "+00:00", "+02:00", "-11:30", "+05:30"]
UUIDS = [
    "0f8fad5b-d9cb-469f-a165-70867728950e",
    "0f8fad5b-d9cb-469f-a165-70867728950f",
    "00000000-0000-0000-0000-000000000000",
]


class Family(NamedTuple):
    """Types whose values may be equal, and texts of such values."""

    postgres: Sequence[str]
    sqlite: Sequence[str]
    make: Callable[[random.Random], str]


def make_number(chance: random.Random) -> str:
    if chance.random() < 0.5:
        return chance.choice(NUMBERS)
    if chance.random() < 0.5:
        return repr(
            chance.choice(
                [chance.random(), chance.uniform(-1e6, 1e6), math.ldexp(chance.random(), chance.randint(-80, 80))]
            )
        )
    return f"{chance.randint(-99, 99)}.{chance.randint(0, 9999):04d}"


def make_moment(chance: random.Random) -> str:
    made = chance.choice(DAYS)
    if made == "infinity" or chance.random() < 0.1:
        return made
    return f"{made}{chance.choice(' T')}{chance.choice(CLOCKS)}{chance.choice(ZONES)}"


def make_list(make: Callable[[random.Random], str]) -> Callable[[random.Random], str]:
    def make_some(chance: random.Random) -> str:
        parts = [make(chance) for _ in range(chance.randint(0, 2))]
        start = f"[0:{len(parts) - 1}]=" if parts and chance.random() < 0.2 else ""
        quoted = ('"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"' for part in parts)
        return start + "{" + ",".join("NULL" if chance.random() < 0.1 else part for part in quoted) + "}"

    return make_some


def make_range(chance: random.Random) -> str:
    low = chance.choice(["", "1", "1.0", "0.5"])
    return chance.choice("[(") + low + "," + chance.choice(["", "2", "2.00", "NaN"]) + chance.choice(")]")


FAMILIES = [
    Family(["smallint", "bigint", "numeric", "numeric(20,4)", "real", "double precision"], ["INTEGER", "REAL", "DECIMAL(20,4)", ""], make_number),
    Family(["text", "varchar(60)", "char(12)"], ["TEXT", "VARCHAR(60) COLLATE NOCASE", ""], lambda chance: chance.choice(WORDS)),
    Family(["boolean"], ["BOOLEAN", "INTEGER"], lambda chance: chance.choice("01")),
    Family(["bytea"], ["BLOB"], lambda chance: chance.choice(WORDS)),
    Family(["json", "jsonb"], ["JSON", "TEXT"], lambda chance: chance.choice(DOCUMENTS)),
    Family(["date", "timestamp", "timestamptz"], ["DATE", "DATETIME", "TEXT"], make_moment),
    Family(["time", "timetz"], ["TIME"], lambda chance: chance.choice(CLOCKS) + chance.choice(["", "+02"])),
    Family(["interval"], ["TEXT"], lambda chance: chance.choice(["1 year", "365 days", "12 months", "1 day", "24:00:00", "-1 day 00:00:01"])),
    Family(["uuid"], ["UUID", "CHAR(36)"], lambda chance: chance.choice(UUIDS)),
    Family(["inet"], ["TEXT"], lambda chance: chance.choice(["10.0.0.1", "10.0.0.1/32", "10.0.0.0/8"])),
    Family(["bigint[]", "numeric[]", "double precision[]"], ["JSON"], make_list(lambda chance: chance.choice(["1", "1.0", "7", "NaN", "0.1", "100"]))),
    Family(["text[]"], ["JSON"], make_list(lambda chance: chance.choice(WORDS))),
    Family(["numrange"], ["TEXT"], make_range),
]  # fmt: skip


TEXT = 1  # takes the texts of all families
MIXED = {2: 0, 10: 11}  # booleans and numbers, arrays of numbers and of text


class Side:
    """One table: the types of its columns, and its rows as they were stored."""

    def __init__(self, kind: str, url: str, types: Sequence[str]) -> None:
        self.kind = kind
        self.url = url
        self.types = types
        self.stored: Mapping[int, Sequence[Any]] = {}

    def fill(self, rows: Sequence[Sequence[Any]]) -> None:
        columns = ", ".join(f"c{number} {type_}" for number, type_ in enumerate(self.types))
        name = self.url.partition("#")[2]
        create = f"CREATE TABLE {name} (id bigint NOT NULL PRIMARY KEY, {columns})"
        if self.kind == "lite":
            connection = sqlite3.connect(self.url.partition("#")[0].removeprefix("sqlite:///"))
            connection.execute(create)
            marks = ", ".join("?" * (len(self.types) + 1))
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", [(n, *row) for n, row in enumerate(rows)])
            self.stored = {row[0]: row[1:] for row in connection.execute(f"SELECT * FROM {name}")}
            connection.commit()
            connection.close()
            return
        with psycopg.connect(self.url.partition("#")[0]) as postgres:
            postgres.execute(create.encode())
            with postgres.cursor().copy(f"COPY {name} FROM STDIN".encode()) as copy:
                for number, row in enumerate(rows):
                    copy.write_row((number, *row))
            postgres.execute(READING)
            with postgres.cursor().copy(f"COPY {name} TO STDOUT".encode()) as copy:
                self.stored = {int(row[0]): row[1:] for row in copy.rows()}

    def model(self, row: int, column: int, other: "Side") -> Model:
        stored = self.stored[row][column]
        if stored is None:
            return None
        if self.kind == "pg":
            return POSTGRES[self.types[column]](stored)
        return read_sqlite(stored, self.types[column], other.types[column] if other.kind == "pg" else None)


def spell(text: str, kind: str, type_: str) -> Any:
    """Return a text as a value that a column takes, or None."""
    if kind == "pg":
        return spell_for_postgres(text, type_)
    name = type_.partition("(")[0]
    try:
        if name in ("INTEGER", "BOOLEAN"):
            return int(text) if abs(int(text)) < 2**63 else None
        if name in ("REAL", "DECIMAL"):
            return float(text)
    except ValueError:
        return None
    return text.encode() if name == "BLOB" else text


def spell_for_postgres(text: str, type_: str) -> str | None:
    try:
        match type_:
            case "smallint":
                return text if abs(int(text)) < 2**15 else None
            case "bigint":
                return text if -(2**63) <= int(text) < 2**63 else None
            case "real":
                value = float(text)
                return text if not math.isfinite(value) or value == 0 or 1e-37 < abs(value) < 3.4e38 else None
            case "double precision":
                return text if text.lower() in ("nan", "infinity", "-infinity") or math.isfinite(float(text)) else None
            case "numeric" | "numeric(20,4)":
                value = float(text)
                return text if type_ == "numeric" or abs(value) < 1e15 else None
            case "bytea":
                return "\\x" + text.encode().hex()
            case "date" | "timestamp" | "timestamptz":
                return None if "2026-02-30" in text else text
            case "char(12)":
                return text if len(text) <= 12 else None
            case "bigint[]":
                return None if "." in text or "NaN" in text else text
            case _:
                return text
    except ValueError:
        return None


def choose_types(chance: random.Random, kinds: tuple[str, str], *, close: bool) -> list[tuple[Family, str, str]]:
    """Return columns. Values in close ones are mostly equal; any two types may meet in the others."""
    chosen = []
    for number in range(COLUMNS):
        family = FAMILIES[number % len(FAMILIES)]
        other = family if close or chance.random() < 0.75 else FAMILIES[MIXED.get(number % len(FAMILIES), TEXT)]
        one_type, other_type = (
            chance.choice(side.postgres if kind == "pg" else side.sqlite)
            for side, kind in zip((family, other), kinds, strict=True)
        )
        if close and kinds[0] == kinds[1]:
            other_type = one_type
        chosen.append((family, one_type, other_type))
    return chosen


@pytest.mark.parametrize("close", [True, False], ids=["close", "mixed"])
@pytest.mark.parametrize("kinds", [("pg", "lite"), ("pg", "pg"), ("lite", "lite")], ids="-".join)
def test_exactly_the_values_that_differ_are_found(
    kinds: tuple[str, str], close: bool, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"SWATH_SEED={SEED}")
    chance = random.Random(f"{SEED} {kinds} {close}")
    monkeypatch.setattr(table_comparison, "MAX_FETCHED", 20)
    columns = choose_types(chance, kinds, close=close)
    changing = 0.002 if close else 0.5
    texts = [[family.make(chance) for family, _, _ in columns] for _ in range(ROWS)]
    others = [
        [
            family.make(chance) if chance.random() < changing else text
            for text, (family, _, _) in zip(row, columns, strict=True)
        ]
        for row in texts
    ]
    urls = {"pg": database, "lite": f"sqlite:///{tmp_path}/fuzz.db"}
    here = Side(kinds[0], f"{urls[kinds[0]]}#here", [type_ for _, type_, _ in columns])
    there = Side(kinds[1], f"{urls[kinds[1]]}#there", [type_ for _, _, type_ in columns])
    for side, rows in ((here, texts), (there, others)):
        side.fill([
            [None if chance.random() < changing / 20 else spell(text, side.kind, type_) for text, type_ in zip(row, side.types, strict=True)]
            for row in rows
        ])  # fmt: skip
    expected = {
        str(row): changed
        for row in range(ROWS)
        if (changed := {f"c{n}" for n in range(COLUMNS) if here.model(row, n, there) != there.model(row, n, here)})
    }
    if close and kinds[0] == kinds[1]:  # slices with equal digests, and with others
        assert 0 < len(expected) < ROWS / 2
    assert 0 < sum(map(len, expected.values())) < 0.98 * ROWS * COLUMNS
    found = compare_tables(here.url, there.url)
    assert found.records == ROWS
    for row in range(ROWS):
        wrong = found.columns.get(str(row), set()) ^ expected.get(str(row), set())
        assert not wrong, [
            (
                here.types[n],
                there.types[n],
                here.stored[row][n],
                there.stored[row][n],
                here.model(row, n, there),
                there.model(row, n, here),
            )
            for n in (int(name[1:]) for name in wrong)
        ]
