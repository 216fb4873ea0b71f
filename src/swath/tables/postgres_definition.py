"""Read the definition of a PostgreSQL table from the system catalog."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg

from swath.tables.definition import Definition, Identity, KeyColumn

# A database that was restored elsewhere may have the same number there, so its identity includes that of the server.
# A managed server may refuse to tell it.
READ_DATABASE = b"""
SELECT (SELECT system_identifier FROM pg_control_system()) || '/' || oid
FROM pg_database WHERE datname = current_database()
"""
# The types of key columns are written independently of the search path. A collation may order differently in another
# version of its library, so its text includes the version in use. `datcollate` means nothing with ICU.
_READ_DEFINITION = """
SELECT r.oid::bigint, a.attname, format_type(a.atttypid, a.atttypmod),
    CASE WHEN n.nspname = 'pg_catalog' THEN format_type(a.atttypid, a.atttypmod)
        ELSE quote_ident(n.nspname) || '.' || quote_ident(t.typname) END,
    CASE WHEN a.attname = ANY(%(key)s::text[]) THEN CASE
        WHEN a.attcollation = 'pg_catalog."default"'::regcollation THEN (
            SELECT format('default (%%s)', concat_ws(', ',
                coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale', datcollate),
                to_jsonb(d) ->> 'daticurules', {version}))
            FROM pg_database AS d WHERE datname = current_database())
        ELSE (
            SELECT format('%%s (%%s)',
                CASE WHEN s.nspname = 'pg_catalog' THEN '' ELSE quote_ident(s.nspname) || '.' END
                    || quote_ident(c.collname),
                concat_ws(', ',
                    coalesce(to_jsonb(c) ->> 'colllocale', to_jsonb(c) ->> 'colliculocale', collcollate),
                    to_jsonb(c) ->> 'collicurules', pg_collation_actual_version(c.oid)))
            FROM pg_collation AS c JOIN pg_namespace AS s ON s.oid = c.collnamespace WHERE c.oid = a.attcollation)
        END END
FROM (SELECT to_regclass(%(table)s) AS oid) AS r
LEFT JOIN pg_attribute AS a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_type AS t ON t.oid = a.atttypid
LEFT JOIN pg_namespace AS n ON n.oid = t.typnamespace
ORDER BY a.attnum
"""
FIND_NEW_NAME = b"SELECT %s::bigint::oid::regclass::text FROM pg_class WHERE oid = %s::bigint::oid"
_PG15 = 150_000


class _Column(NamedTuple):
    table: int | None
    name: str | None
    type: str
    qualified_type: str
    collation: str | None


def build_definition_query(connection: psycopg.BaseConnection[Any]) -> bytes:
    """Return the query whose rows `parse_definition_rows` takes. Its values are `table` and `key`, the names."""
    has_version = connection.info.server_version >= _PG15
    version = "pg_database_collation_actual_version(d.oid)" if has_version else "NULL"
    return _READ_DEFINITION.replace("{version}", version).encode()


def parse_definition_rows(
    rows: Sequence[Sequence[Any]], key_names: Sequence[str], *, database: str | None
) -> Definition | None:
    """Return the definition, or None if there is no such table."""
    columns = {row[1]: _Column(*row) for row in rows}
    table = _Column(*rows[0]).table
    if table is None:
        return None
    identity = None if database is None else Identity(database, str(table))
    key = tuple(
        KeyColumn(name, columns[name].qualified_type, columns[name].collation) for name in key_names if name in columns
    )
    return Definition(identity, key, {name: column.type for name, column in columns.items() if name is not None})
