"""Look up the types of a table's columns in PostgreSQL's catalog, down to the elements of arrays and composites."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import psycopg

from swath.tables.canonical.column_types import PostgresType

_COLUMNS = """
SELECT attname, atttypid::bigint FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
"""
_TYPES = """
WITH RECURSIVE used (oid) AS (
    SELECT unnest(%s::bigint[])::oid
    UNION
    SELECT part.oid FROM used JOIN pg_type AS t ON t.oid = used.oid CROSS JOIN LATERAL (
        SELECT t.typbasetype AS oid WHERE t.typtype = 'd'
        UNION ALL SELECT e.oid FROM pg_type AS e WHERE e.typarray = t.oid
        UNION ALL SELECT a.atttypid FROM pg_attribute AS a
            WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL SELECT r.rngsubtype FROM pg_range AS r WHERE r.rngtypid = t.oid
        UNION ALL SELECT r.rngtypid FROM pg_range AS r WHERE r.rngmultitypid = t.oid
    ) AS part
)
SELECT t.oid::bigint, t.typname, t.typtype::text, CASE WHEN t.typtype = 'd' THEN t.typbasetype::bigint END,
    (SELECT e.oid::bigint FROM pg_type AS e WHERE e.typarray = t.oid),
    (SELECT coalesce(r.rngsubtype, 0)::bigint FROM pg_range AS r WHERE r.rngtypid = t.oid),
    (SELECT r.rngtypid::bigint FROM pg_range AS r WHERE r.rngmultitypid = t.oid),
    ARRAY(SELECT a.attname::text FROM pg_attribute AS a WHERE t.typtype = 'c' AND a.attrelid = t.typrelid
        AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
    ARRAY(SELECT a.atttypid::bigint FROM pg_attribute AS a WHERE t.typtype = 'c' AND a.attrelid = t.typrelid
        AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum)
FROM used JOIN pg_type AS t ON t.oid = used.oid
"""


class _Row(NamedTuple):
    oid: int
    name: str
    kind: str
    base: int | None  # of a domain
    element: int | None  # of an array
    subtype: int | None  # of a range
    range: int | None  # of a multirange
    field_names: list[str]
    field_types: list[int]


async def find_column_types(connection: psycopg.AsyncConnection[Any], table: str) -> Mapping[str, PostgresType]:
    """Return the types of all columns of a table, by its quoted name."""
    columns = dict(await (await connection.execute(_COLUMNS, (table,))).fetchall())
    found = await (await connection.execute(_TYPES, (list(columns.values()),))).fetchall()
    rows = {row[0]: _Row(*row) for row in found}
    return {name: _make_type(rows, oid) for name, oid in columns.items()}


def _make_type(rows: Mapping[int, _Row], oid: int) -> PostgresType:
    row = rows[oid]
    if row.base is not None:
        return _make_type(rows, row.base)
    if row.element is not None:
        return PostgresType(row.name, "array", (_make_type(rows, row.element),))
    if row.subtype is not None:
        return PostgresType(row.name, "range", (_make_type(rows, row.subtype),))
    if row.range is not None:
        return PostgresType(row.name, "multirange", (_make_type(rows, row.range),))
    if row.kind == "c":
        parts = tuple(_make_type(rows, field) for field in row.field_types)
        return PostgresType(row.name, "composite", parts, tuple(row.field_names))
    return PostgresType(row.name, "enum" if row.kind == "e" else "base")
