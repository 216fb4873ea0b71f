"""Keys of SQLite tables: as JSON, and from the command line."""

import math
from typing import Any

import pytest

from swath import UsageError
from swath.tables.sqlite_keys import decode_value, encode_value, parse_value


class Named:
    """A column or a table that only has what a message needs."""

    def __init__(self, name: str, type: str = "") -> None:
        self.name = name
        self.type = type


def parse(text: str, kind: str) -> Any:
    column: Any = Named("id", kind)
    table: Any = Named("users")
    return parse_value(text, column, table)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", "INTEGER", 7),
        ("7.5", "BIGINT", 7.5),
        ("-7", "INT", -7),
        (" 7 ", "INT", 7),
        (str(2**63 - 1), "INT", 2**63 - 1),
        (str(-(2**63)), "INT", -(2**63)),
        (str(2**63), "INT", float(2**63)),
        (str(-(2**63) - 1), "INT", float(-(2**63))),
        ("007", "VARCHAR(9)", "007"),
        ("007", "CLOB", "007"),
        ("007", "TEXT", "007"),
        ("00FF", "BLOB", {"hex": "00ff"}),
        ("1e3", "REAL", 1000.0),
        ("1e3", "FLOAT", 1000.0),
        ("1e3", "DOUBLE PRECISION", 1000.0),
        ("1e3", "NUMERIC", 1000.0),
        ("3", "DECIMAL(5, 2)", 3),
        ("-inf", "REAL", {"real": "-inf"}),
        ("007", "DATE", 7),
        ("+1.5", "", 1.5),
        ("1e3", "DATE", "1e3"),
        ("2030-01-01", "DATE", "2030-01-01"),
        ("x", "", "x"),
    ],
)
def test_text_is_parsed_as_a_column_would_store_it(text: str, kind: str, value: object) -> None:
    found = parse(text, kind)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(("text", "kind"), [("x", "INTEGER"), ("nan", "REAL"), ("0g", "BLOB"), ("", "NUMERIC")])
def test_text_that_a_column_cannot_have_is_refused(text: str, kind: str) -> None:
    with pytest.raises(UsageError, match=rf"'{text}' is not a value for id of users, whose type is {kind}"):
        parse(text, kind)


@pytest.mark.parametrize("value", [7, 1.5, "x", None, b"\0\xff", math.inf, -math.inf])
def test_every_value_comes_back_from_json(value: object) -> None:
    encoded = encode_value(value)
    assert not isinstance(encoded, bytes)
    assert decode_value(encoded) == value
    assert isinstance(encoded, dict) == (isinstance(value, bytes) or value in (math.inf, -math.inf))
