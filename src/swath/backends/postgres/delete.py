"""Delete a frontier: its tables, its sequence and its functions. The schema stays, and whatever else is in it."""

import re

from psycopg import errors as pg
from psycopg import sql as syntax

from swath.backends import sql
from swath.backends.postgres.connections import AsyncConnection, connect
from swath.backends.postgres.errors import translate_errors
from swath.backends.postgres.function_sets import drop_functions, lock_schema
from swath.backends.postgres.location import PostgresLocation
from swath.backends.postgres.migration import list_migrations, read_format
from swath.backends.postgres.statements import PACKAGE
from swath.core.deletion import build_in_use_error
from swath.core.errors import NotAFrontier, UsageError

LOCK_SECONDS = 30.0  # how long to wait for the lock of one partition

_CREATED = re.compile(r"^CREATE (TABLE|SEQUENCE) \{schema\}\.(\w+)", re.MULTILINE)
_LIVE_CLAIM = """
SELECT c.worker, count(*), max(c.expires_at) FROM {schema}.claimed AS i JOIN {schema}.claim AS c USING (fence)
WHERE NOT c.lost AND c.expires_at > extract(epoch FROM clock_timestamp()) * 1000000
GROUP BY c.worker ORDER BY 3 DESC LIMIT 1
"""


async def delete(url: str) -> None:
    """Delete the frontier in one transaction.

    Raise NotAFrontier if there is none, StoreUnavailable if a worker holds items of it, and UsageError if something
    else in the database needs its tables.
    """
    location = PostgresLocation.parse(url)
    with translate_errors(location.display_url, doing="deleting"):
        connection = await connect(location.dsn)
        try:
            async with connection.transaction():
                await connection.execute(f"SET LOCAL lock_timeout TO {LOCK_SECONDS * 1_000:.0f}")
                await lock_schema(connection, location)
                if await read_format(connection, location) is None:
                    raise NotAFrontier(f"there is no frontier at {location.display_url}")
                await connection.execute(
                    location.fill("SELECT partition FROM {schema}.partition ORDER BY partition FOR UPDATE")
                )
                found = await (await connection.execute(location.fill(_LIVE_CLAIM))).fetchone()
                if found is not None:
                    raise build_in_use_error(location.display_url, *found)
                await _drop(connection, location)
        except pg.DependentObjectsStillExist as error:
            raise UsageError(
                f"{location.display_url} is not deleted, because something else needs it: {error.diag.message_detail}. "
                "Drop that first"
            ) from error
        finally:
            await connection.close()


async def _drop(connection: AsyncConnection, location: PostgresLocation) -> None:
    cursor = await connection.execute(location.fill("SELECT hash FROM {schema}.function_set"))
    for (functions,) in await cursor.fetchall():
        await drop_functions(connection, location, functions)
    created: dict[str, list[syntax.Identifier]] = {"TABLE": [], "SEQUENCE": []}
    for _, file in list_migrations():
        for kind, name in _CREATED.findall(sql.read(f"{PACKAGE}.migrations", file)):
            created[kind].append(syntax.Identifier(location.schema, name))
    for kind, names in created.items():
        await connection.execute(
            syntax.SQL("DROP {} IF EXISTS {}").format(syntax.SQL(kind), syntax.SQL(", ").join(names))
        )
