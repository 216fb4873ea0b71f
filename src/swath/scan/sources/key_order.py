"""Check that two tables order their keys alike, so that slices of one are slices of the other."""

from swath import UsageError
from swath.scan.sources.sync_table import SyncTable
from swath.tables.table import Column

# Include the version: the same collation may order differently in another version of the library. `datcollate` is for
# the C library only; with ICU it means nothing. PostgreSQL's builtin provider orders by bytes under any name.
_DEFAULT = """
SELECT CASE WHEN to_jsonb(d) ->> 'datlocprovider' = 'b' THEN 'C' ELSE concat_ws(' ',
    coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale', datcollate),
    to_jsonb(d) ->> 'datlocprovider', to_jsonb(d) ->> 'datcollversion', to_jsonb(d) ->> 'daticurules') END
FROM pg_database AS d WHERE datname = current_database()
"""
_NAMED = """
SELECT CASE WHEN collprovider = 'b' THEN 'C' ELSE concat_ws(' ',
    coalesce(collcollate, to_jsonb(c) ->> 'colllocale', to_jsonb(c) ->> 'colliculocale'),
    collprovider, collversion, to_jsonb(c) ->> 'collicurules') END
FROM pg_collation AS c WHERE oid = %s::regcollation
"""
_TEXTS = ("text", "character", "name", "citext", "VARCHAR", "CHAR", "TEXT", "CLOB")
_INTEGERS = ("smallint", "integer", "bigint", "INT")
_AS_BYTES = ("C", "POSIX", "BINARY")


def check_order(here: SyncTable, there: SyncTable) -> None:
    """Raise UsageError if the two tables may order the same keys differently."""
    ours, theirs = here.table.description.key, there.table.description.key
    if len(ours) != len(theirs):
        raise UsageError(f"the key of {here.label} has {len(ours)} columns and that of {there.label} has {len(theirs)}")
    for one, other in zip(ours, theirs, strict=True):
        kinds = _get_kind(one), _get_kind(other)
        if kinds[0] != kinds[1] and here.kind == there.kind:
            raise UsageError(_explain(here, there, one, other, f"are {one.type} and {other.type}"))
        if here.kind != there.kind and set(kinds) not in ({"text"}, {"integer"}, {"uuid", "text"}):
            raise UsageError(
                _explain(here, there, one, other, f"are {one.type} and {other.type}, of two kinds of database")
            )
        if "text" in kinds:
            orders = _get_order(here, one), _get_order(there, other)
            if orders[0] != orders[1]:
                raise UsageError(_explain(here, there, one, other, f"are ordered by {orders[0]} and {orders[1]}"))


def _explain(here: SyncTable, there: SyncTable, one: Column, other: Column, why: str) -> str:
    return (
        f"the keys {one.name} of {here.label} and {other.name} of {there.label} {why}, so the tables cannot be "
        "compared slice by slice. Choose another --key, or compare exports with the same order"
    )


def _get_kind(column: Column) -> str:
    if column.type.startswith(_TEXTS):
        return "text"
    if column.type in _INTEGERS or "INT" in column.type:
        return "integer"
    return column.type


def _get_order(rows: SyncTable, column: Column) -> str:
    """Return a text that identifies the order of a column's values."""
    if rows.kind == "postgresql" and column.type == "uuid":
        return "bytes"
    if rows.kind == "sqlite":
        found = column.collation or "BINARY"
    elif column.collation is None:
        found = rows.fetch_value(_DEFAULT)
    else:
        found = rows.fetch_value(_NAMED, column.collation)
    return "bytes" if found.partition(" ")[0] in _AS_BYTES else found
