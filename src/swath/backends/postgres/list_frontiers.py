"""The frontiers in a PostgreSQL database."""

from collections.abc import Sequence

from swath.backends.postgres.connections import connect
from swath.backends.postgres.errors import translate_errors
from swath.backends.postgres.location import DEFAULT_SCHEMA, PostgresLocation, is_schema_name

# Schemas with a frontier's oldest tables, whatever its format
_SCHEMAS = """
SELECT n.nspname
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relname IN ('frontier', 'migration', 'partition_state') AND c.relkind = 'r'
GROUP BY n.nspname HAVING count(*) = 3 ORDER BY n.nspname
"""


async def list_frontiers(url: str) -> Sequence[str]:
    """Return the URL of every frontier in a database."""
    location = PostgresLocation.parse(url)
    with translate_errors(location.display_url, doing="listing frontiers"):
        async with await connect(location.dsn) as connection:
            rows = await (await connection.execute(_SCHEMAS)).fetchall()
    return [_build_url(location.dsn, schema) for (schema,) in rows if is_schema_name(schema)]


def _build_url(dsn: str, schema: str) -> str:
    if schema == DEFAULT_SCHEMA:
        return dsn
    return f"{dsn}{'&' if '?' in dsn else '?'}schema={schema}"
