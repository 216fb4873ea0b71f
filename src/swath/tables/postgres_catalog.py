"""Describe a PostgreSQL table from the system catalog, and check that its key can order it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg

from swath import UsageError
from swath.tables.identifiers import find_columns, quote_identifier, suggest_name
from swath.tables.table import Column, Description

MAX_IDENTIFIER = 63  # bytes

_FIND = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relkind, EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhparent = c.oid)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass(%s)
"""
_TABLES = """
SELECT CASE WHEN pg_table_is_visible(c.oid) THEN quote_ident(c.relname)
    ELSE format('%%I.%%I', n.nspname, c.relname) END
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
LIMIT 10000
"""
# Since PostgreSQL 18, a NOT NULL constraint can be NOT VALID: it holds for new rows only.
_COLUMNS = """
SELECT a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull AND NOT EXISTS (
        SELECT FROM pg_constraint AS n
        WHERE n.conrelid = a.attrelid AND n.contype = 'n' AND n.conkey = ARRAY[a.attnum] AND NOT n.convalidated),
    CASE WHEN a.attcollation <> t.typcollation OR t.typtype = 'd'
        THEN (SELECT format('%%I.%%I', n.nspname, l.collname) FROM pg_collation AS l
            JOIN pg_namespace AS n ON n.oid = l.collnamespace WHERE l.oid = a.attcollation) END
FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
WHERE a.attrelid = %s::bigint::oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
# An index is ordered if a plain ORDER BY of its columns can read it forwards or entirely backwards.
_INDEXES = """
SELECT c.relname, i.indisprimary, i.indisvalid, i.indisunique, i.indpred IS NULL AND i.indexprs IS NULL,
    (i.indkey::int2[])[0:i.indnkeyatts - 1],
    m.amname = 'btree'
    AND NOT EXISTS (
        SELECT FROM generate_series(0, i.indnkeyatts - 1) AS p
        LEFT JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[p]
        LEFT JOIN pg_opclass AS o ON o.oid = i.indclass[p]
        WHERE i.indoption[p] <> i.indoption[0] OR i.indoption[p] NOT IN (0, 3)
            OR i.indcollation[p] <> a.attcollation OR NOT o.opcdefault)
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS m ON m.oid = c.relam
WHERE i.indrelid = %s::bigint::oid
ORDER BY i.indisprimary DESC, c.relname
"""
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "i": "an index"}


class _Index(NamedTuple):
    name: str
    primary: bool
    valid: bool
    unique: bool
    plain: bool  # neither partial nor on expressions
    columns: Sequence[int]
    ordered: bool


async def describe(
    connection: psycopg.AsyncConnection[Any], table: str, *, key: Sequence[str] | None, label: str
) -> Description:
    """Return a table's description. Raise UsageError if its key is not unique, not indexed or nullable."""
    oid, schema, name = await _find(connection, table, label)
    table_label = name if schema == "public" else f"{schema}.{name}"
    found = await (await connection.execute(_COLUMNS, (oid,))).fetchall()
    numbered = {number: Column(column, type_, collation) for number, column, type_, _, collation in found}
    nullable = {column for _, column, _, not_null, _ in found if not not_null}
    columns = tuple(numbered.values())
    indexes = [_Index(*row) for row in await (await connection.execute(_INDEXES, (oid,))).fetchall()]
    if key is None:
        primary = next((index for index in indexes if index.primary), None)
        if primary is None:
            raise UsageError(f"{table_label} has no primary key. Name the columns of a unique index with --key")
        chosen = tuple(numbered[number] for number in primary.columns)
    else:
        chosen = find_columns(key, columns, table=table_label)
    if nullable_key := [column.name for column in chosen if column.name in nullable]:
        changes = ", ".join(f"ALTER COLUMN {quote_identifier(column)} SET NOT NULL" for column in nullable_key)
        raise UsageError(
            f"{', '.join(nullable_key)} of {table_label} may be NULL, and rows with a NULL key would be skipped. "
            f"Run: ALTER TABLE {quote_identifier(schema, name)} {changes}"
        )
    numbers = {column.name: number for number, column in numbered.items()}
    wanted = [numbers[column.name] for column in chosen]
    _check_order([index for index in indexes if list(index.columns) == wanted], chosen, schema, name, table_label)
    return Description(table_label, quote_identifier(schema, name), chosen, columns)


async def _find(connection: psycopg.AsyncConnection[Any], table: str, label: str) -> tuple[int, str, str]:
    try:
        row = await (await connection.execute(_FIND, (table,))).fetchone()
    except psycopg.errors.Error as error:
        if connection.closed:
            raise
        message = error.diag.message_primary
        raise UsageError(f"{table!r} is not a table name: {message}. Write name or schema.name") from error
    if row is None:
        known = [name for (name,) in await (await connection.execute(_TABLES)).fetchall()]
        raise UsageError(f"{label} has no table {table!r}.{suggest_name(table, known)}")
    oid, schema, name, kind, has_children = row
    if kind not in ("r", "p"):
        what = _KINDS.get(kind, "not a table")
        raise UsageError(f"{table} is {what} and has no key. Name the table that holds its rows")
    if kind == "r" and has_children:
        raise UsageError(
            f"{table} has tables that inherit from it, and its unique index does not cover their rows. "
            "Use each table by itself, children first, or turn it into a partitioned table"
        )
    return oid, schema, name


def _check_order(same: Sequence[_Index], key: Sequence[Column], schema: str, table: str, table_label: str) -> None:
    """Raise UsageError unless an index makes the key unique and ordered."""
    if any(index.valid and index.unique and index.plain and index.ordered for index in same):
        return
    names = ", ".join(column.name for column in key)
    columns = ", ".join(quote_identifier(column.name) for column in key)
    name = f"{table}_{'_'.join(column.name for column in key)}_key"
    index = quote_identifier(_truncate_identifier(name))
    create = f"CREATE UNIQUE INDEX CONCURRENTLY {index} ON {quote_identifier(schema, table)} ({columns})"
    flaws = [f" ({index.name} {_explain_flaw(index)})" for index in same]
    raise UsageError(
        f"{table_label} has no unique index on exactly ({names}), in this order{''.join(flaws)}. Create one: {create}"
    )


def _truncate_identifier(name: str) -> str:
    return name.encode()[:MAX_IDENTIFIER].decode(errors="ignore")


def _explain_flaw(index: _Index) -> str:
    if not index.valid:
        return "is not valid: its build did not finish"
    if not index.unique:
        return "is not unique"
    if not index.plain:
        return "is partial or indexes expressions"
    return "orders the columns differently: another collation, direction or operator class"
