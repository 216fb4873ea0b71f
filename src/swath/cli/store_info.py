"""What a store is made of: its format and its size."""

import os
from typing import NamedTuple

from swath.opening import StoreURL

_SCHEMA_BYTES = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'r'
"""


class StoreInfo(NamedTuple):
    backend: str
    format: int
    bytes: int


async def describe(url: str) -> StoreInfo:
    """The format and the size of a store that can be opened, so that its format is this version's."""
    store = StoreURL.parse(url)
    if store.backend == "sqlite":
        return _sqlite(store.path)
    return await _postgres(url)


def _sqlite(path: str) -> StoreInfo:
    from swath.backends.sqlite.state import FORMAT

    files = (path, f"{path}-wal")
    return StoreInfo("sqlite", FORMAT, sum(os.path.getsize(file) for file in files if os.path.exists(file)))


async def _postgres(url: str) -> StoreInfo:
    from swath.backends.postgres.connections import connect
    from swath.backends.postgres.errors import FORMAT, translated
    from swath.backends.postgres.location import Target

    target = Target.parse(url)
    with translated(target.shown, doing="measuring"):
        async with await connect(target.dsn) as connection:
            row = await (await connection.execute(_SCHEMA_BYTES, (target.schema,))).fetchone()
    return StoreInfo("postgresql", FORMAT, int(row[0]) if row else 0)
