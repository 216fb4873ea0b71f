"""Describe an SQLite table from its schema, and check that its key can order it."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from swath import UsageError
from swath.tables.identifiers import find_columns, quote_identifier, suggest_name
from swath.tables.table import Column, Description


def describe(connection: sqlite3.Connection, table: str, *, key: Sequence[str] | None, label: str) -> Description:
    """Return a table's description. Raise UsageError if its key is not unique, not indexed or nullable."""
    found = connection.execute(
        "SELECT name, type FROM sqlite_schema WHERE lower(name) = lower(?) AND type IN ('table', 'view')", (table,)
    ).fetchone()
    if found is None:
        known = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        raise UsageError(f"{label} has no table {table!r}.{suggest_name(table, known)}")
    name, kind = found
    if kind == "view":
        raise UsageError(f"{table} is a view and has no key. Name the table that holds its rows")
    infos = connection.execute(f"PRAGMA table_xinfo({quote_identifier(name)})").fetchall()
    columns = tuple(Column(info[1], info[2].upper()) for info in infos)
    if key is None:
        primary = sorted((info[5], info[1]) for info in infos if info[5])
        if not primary:
            raise UsageError(f"{name} has no primary key. Name the columns of a unique index with --key")
        key = [column for _, column in primary]
    chosen = find_columns(key, columns, table=name)
    names = [column.name for column in chosen]
    _check_not_null(connection, name, names, infos)
    collations = _find_collations(connection, name, names, infos)
    collated = tuple(replace(column, collation=collations.get(column.name, "BINARY")) for column in chosen)
    return Description(name, quote_identifier(name), collated, columns)


def _check_not_null(connection: sqlite3.Connection, table: str, names: list[str], infos: Sequence[Any]) -> None:
    """Raise UsageError if a key column holds NULL, or may hold it and is not part of the primary key.

    SQLite accepts NULL in most primary keys and cannot add NOT NULL later, so those are checked by their rows.
    """
    for _, name, _, not_null, _, primary, _ in infos:
        if name not in names or not_null:
            continue
        if not primary:
            raise UsageError(
                f"{name} of {table} may be NULL, and rows with a NULL key would be skipped. Choose another key, or "
                "recreate the table with the column NOT NULL"
            )
        column = quote_identifier(name)
        if connection.execute(f"SELECT 1 FROM {quote_identifier(table)} WHERE {column} IS NULL LIMIT 1").fetchone():
            raise UsageError(
                f"{name} of {table} is NULL in some rows, and they would be skipped. Give these rows a key first"
            )


def _find_collations(
    connection: sqlite3.Connection, table: str, names: list[str], infos: Sequence[Any]
) -> Mapping[str, str]:
    """Return the collations of an index that makes the key unique and ordered, as SQLite's query planner confirms."""
    found: list[tuple[str, Mapping[str, str]]] = []
    if [(info[1], info[2].upper()) for info in infos if info[5]] == [(names[0], "INTEGER")] and len(names) == 1:
        found.append(("", {}))  # the rowid, which needs no index
    for _, index, unique, _, partial in connection.execute(f"PRAGMA index_list({quote_identifier(table)})").fetchall():
        listed = connection.execute(f"PRAGMA index_xinfo({quote_identifier(index)})").fetchall()
        ordered = {name: collation for _, _, name, _, collation, is_key in listed if is_key}
        if unique and not partial and list(ordered) == names:
            found.append((f"INDEXED BY {quote_identifier(index)}", ordered))
    for by, collations in found:
        if _can_page_by(connection, f"{quote_identifier(table)} {by}", names):
            return collations
    columns = ", ".join(map(quote_identifier, names))
    name = quote_identifier(f"{table}_{'_'.join(names)}_key")
    raise UsageError(
        f"{table} has no unique index on exactly ({', '.join(names)}), in this order and with the columns' own "
        f"collations. Create one: CREATE UNIQUE INDEX {name} ON {quote_identifier(table)} ({columns})"
    )


def _can_page_by(connection: sqlite3.Connection, table: str, names: list[str]) -> bool:
    """Return whether SQLite can page through the table by these columns without reading or sorting all of it."""
    columns, values = ", ".join(map(quote_identifier, names)), ", ".join("?" * len(names))
    statement = f"SELECT {columns} FROM {table} WHERE ({columns}) > ({values}) ORDER BY {columns} LIMIT 1"
    try:
        steps = connection.execute(f"EXPLAIN QUERY PLAN {statement}", [0] * len(names)).fetchall()
    except sqlite3.OperationalError:  # the index does not apply
        return False
    plan = " ".join(step[3] for step in steps)
    return plan.startswith("SEARCH") and "TEMP B-TREE" not in plan
