"""The format and the size of a PostgreSQL store."""

from swath.backends.postgres.connections import connect
from swath.backends.postgres.errors import translate_errors
from swath.backends.postgres.format import FORMAT
from swath.backends.postgres.location import PostgresLocation
from swath.core.status import StoreInfo

_SCHEMA_BYTES = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'r'
"""


async def describe(url: str) -> StoreInfo:
    """Describe the schema of a store that this version of swath can open."""
    location = PostgresLocation.parse(url)
    with translate_errors(location.display_url, doing="measuring"):
        async with await connect(location.dsn) as connection:
            row = await (await connection.execute(_SCHEMA_BYTES, (location.schema,))).fetchone()
    return StoreInfo("postgresql", FORMAT, int(row[0]) if row else 0)
