"""Array literals: PostgreSQL reads back exactly what was written."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.backends.postgres.array_literals import boolean_array, bytes_array, number_array, text_array
from tests.conftest import Server

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20) | st.sampled_from(
    ["", "NULL", "null", "{}", '"', "\\", '\\"', ",", "a,b", " padded ", "\n\t", "{a}", "'", "\\x00", "ü😀", "%s"]
)
BIG = 2**63 - 1


@pytest.fixture(scope="module")
def connection(postgres: Server) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        yield connection


def read_back(connection: psycopg.Connection[Any], literal: str, kind: str) -> list[Any]:
    row = connection.execute(f"SELECT %s::{kind}[]".encode(), (literal,)).fetchone()
    assert row is not None
    return list(row[0])


@settings(deadline=None, max_examples=60)
@given(values=st.lists(TEXTS | st.none(), max_size=8))
def test_text(connection: psycopg.Connection[Any], values: list[str | None]) -> None:
    expected = [] if all(value is None for value in values) else values
    assert read_back(connection, text_array(values), "text") == expected


@settings(deadline=None, max_examples=60)
@given(values=st.lists(TEXTS, max_size=8))
def test_text_without_null(connection: psycopg.Connection[Any], values: list[str]) -> None:
    assert read_back(connection, text_array(values), "text") == values


@settings(deadline=None, max_examples=30)
@given(values=st.lists(st.integers(-BIG - 1, BIG) | st.none(), max_size=8))
def test_numbers(connection: psycopg.Connection[Any], values: list[int | None]) -> None:
    expected = [] if all(value is None for value in values) else values
    assert read_back(connection, number_array(values), "bigint") == expected


@settings(deadline=None, max_examples=30)
@given(values=st.lists(st.binary(max_size=20) | st.none(), max_size=8))
def test_bytes(connection: psycopg.Connection[Any], values: list[bytes | None]) -> None:
    assert read_back(connection, bytes_array(values), "bytea") == values


@settings(deadline=None, max_examples=10)
@given(values=st.lists(st.booleans(), max_size=8))
def test_booleans(connection: psycopg.Connection[Any], values: list[bool]) -> None:
    assert read_back(connection, boolean_array(values), "boolean") == values


def test_nothing_but_the_default_is_an_empty_array() -> None:
    """`unnest` fills up shorter arrays with null, so a column that nobody uses costs nothing."""
    assert text_array([]) == number_array([]) == bytes_array([]) == boolean_array([]) == "{}"
    assert text_array([None, None]) == number_array([None, None]) == "{}"
    assert number_array([1, 1], default=1) == "{}"
    assert number_array([1, 2], default=1) == "{1, 2}"
