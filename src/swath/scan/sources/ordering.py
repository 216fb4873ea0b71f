"""Whether two tables order their keys alike: slices of one are slices of the other only then."""

from swath import UsageError
from swath.scan.sources.table import Rows
from swath.tables.table import Column

# A library of another version may order otherwise under the same name. What `datcollate` says is how the C library
# orders: with ICU it stands for nothing, and what PostgreSQL has built in goes by the bytes, whatever it is called.
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


def check_order(here: Rows, there: Rows) -> None:
    """UsageError where the same keys come in another order."""
    ours, theirs = here.table.description.key, there.table.description.key
    if len(ours) != len(theirs):
        raise UsageError(f"the key of {here.label} has {len(ours)} columns and that of {there.label} has {len(theirs)}")
    for one, other in zip(ours, theirs, strict=True):
        kinds = _kind(one), _kind(other)
        if kinds[0] != kinds[1] and here.kind == there.kind:
            raise UsageError(_refusal(here, there, one, other, f"are {one.type} and {other.type}"))
        if here.kind != there.kind and set(kinds) not in ({"text"}, {"integer"}, {"uuid", "text"}):
            raise UsageError(
                _refusal(here, there, one, other, f"are {one.type} and {other.type}, of two kinds of database")
            )
        if "text" in kinds:
            orders = _order(here, one), _order(there, other)
            if orders[0] != orders[1]:
                raise UsageError(_refusal(here, there, one, other, f"are ordered by {orders[0]} and {orders[1]}"))


def _refusal(here: Rows, there: Rows, one: Column, other: Column, why: str) -> str:
    return (
        f"the keys {one.name} of {here.label} and {other.name} of {there.label} {why}, so that slices of one are not "
        "slices of the other: choose another --key, or compare exports that are ordered alike"
    )


def _kind(column: Column) -> str:
    if column.type.startswith(_TEXTS):
        return "text"
    if column.type in _INTEGERS or "INT" in column.type:
        return "integer"
    return column.type


def _order(rows: Rows, column: Column) -> str:
    """How a column's texts are ordered, in a word that is the same for the same order."""
    if rows.kind == "postgresql" and column.type == "uuid":
        return "bytes"
    if rows.kind == "sqlite":
        found = column.collation or "BINARY"
    elif column.collation is None:
        found = rows.ask(_DEFAULT)
    else:
        found = rows.ask(_NAMED, column.collation)
    return "bytes" if found.partition(" ")[0] in _AS_BYTES else found
