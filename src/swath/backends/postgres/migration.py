"""Create the tables of a frontier and upgrade them.

Tables come from the numbered files in `migrations/`, which are frozen once released. The number of the last one is the
format of the store. Stored functions are installed beside the tables, see `function_sets`.
"""

from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files

from psycopg import errors as pg

from swath.backends import sql
from swath.backends.postgres.connections import AsyncConnection, connect
from swath.backends.postgres.errors import translate_errors
from swath.backends.postgres.format import FORMAT, build_format_error
from swath.backends.postgres.function_sets import install, lock_schema, remove_unused
from swath.backends.postgres.location import PostgresLocation
from swath.backends.postgres.statements import FUNCTIONS, PACKAGE
from swath.core.errors import NotAFrontier, SchemaError, StoreUnavailable
from swath.core.store import Settings

LOCK_SECONDS = 30.0  # how long a migration waits for the lock of one partition while it holds others


def list_migrations() -> Sequence[tuple[int, str]]:
    """Return the numbers and names of the migration files, in order."""
    names = sorted(entry.name for entry in files(f"{PACKAGE}.migrations").iterdir() if entry.name.endswith(".sql"))
    return [(int(name.partition("_")[0]), name) for name in names]


def hash_migration(name: str) -> str:
    """Return the hash of a migration's text without comments. A store records it for each migration applied to it."""
    lines = sql.read(f"{PACKAGE}.migrations", name).splitlines()
    text = "\n".join(line.rstrip() for line in lines if line.strip() and not line.lstrip().startswith("--"))
    return sha256(text.encode()).hexdigest()


async def create(connection: AsyncConnection, location: PostgresLocation, settings: Settings) -> None:
    """Create the frontier in its schema in one transaction, unless another process just did."""
    async with connection.transaction():
        await lock_schema(connection, location)
        if await read_format(connection, location) is not None:
            return
        cursor = await connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (location.schema,))
        if not await cursor.fetchone():  # IF NOT EXISTS needs the privilege to create schemas even if the schema exists
            await connection.execute(location.fill("CREATE SCHEMA {schema}"))
        await _apply(connection, location, above=0)
        await install(connection, location)
        await connection.execute(
            location.fill(
                "INSERT INTO {schema}.frontier (format, partitions, min_interval, concurrency, max_attempts) "
                "VALUES (%s, %s, %s, %s, %s)"
            ),
            (FORMAT, *settings),
        )
        await connection.execute(
            location.fill("INSERT INTO {schema}.partition SELECT generate_series(0, %s - 1)"), (settings.partitions,)
        )
        await connection.execute(
            location.fill(
                "INSERT INTO {schema}.partition_state (partition, version) SELECT partition, 1 FROM {schema}.partition"
            )
        )


async def migrate(url: str) -> Sequence[str]:
    """Upgrade the frontier at `url` while others work on it; return what was applied, installed and removed.

    The migration holds the locks of all partitions. Workers with an older format stop with SchemaTooNew at their next
    call; workers with the same format and other functions continue. If another transaction holds a partition for longer
    than LOCK_SECONDS, nothing is changed and StoreUnavailable is raised.
    """
    location = PostgresLocation.parse(url)
    with translate_errors(location.display_url, doing="migrating"):
        connection = await connect(location.dsn)
        try:
            async with connection.transaction():
                if await read_format(connection, location) is None:
                    raise NotAFrontier(f"{location.display_url} has no frontier to migrate: `swath db init` makes one")
                await connection.execute(f"SET LOCAL lock_timeout TO {LOCK_SECONDS * 1_000:.0f}")
                await lock_schema(connection, location)
                await connection.execute(
                    location.fill("SELECT partition FROM {schema}.partition ORDER BY partition FOR UPDATE")
                )
                found = await read_format(connection, location)  # read it again under the lock
                assert found is not None
                if found > FORMAT:
                    raise build_format_error(found, location.display_url)
                applied = await _apply(connection, location, above=found)
                await connection.execute(location.fill("UPDATE {schema}.frontier SET format = %s"), (FORMAT,))
                if await install(connection, location):
                    applied.append(f"functions {FUNCTIONS.hash}")
                applied += [f"removal of functions {unused}" for unused in await remove_unused(connection, location)]
            return applied
        finally:
            await connection.close()


async def _apply(connection: AsyncConnection, location: PostgresLocation, *, above: int) -> list[str]:
    applied = []
    for number, name in list_migrations():
        if number > above:
            await connection.execute(location.fill(sql.read(f"{PACKAGE}.migrations", name)))
            await connection.execute(
                location.fill("INSERT INTO {schema}.migration (number, name, hash) VALUES (%s, %s, %s)"),
                (number, name, hash_migration(name)),
            )
            applied.append(name)
    return applied


async def read_format(connection: AsyncConnection, location: PostgresLocation) -> int | None:
    """Return the format of the frontier in this schema, or None if the schema has no tables."""
    cursor = await connection.execute(
        "SELECT count(*), count(*) FILTER (WHERE relname IN ('frontier', 'partition_state', 'lane_state', 'seen')) "
        "FROM pg_class WHERE relkind IN ('r', 'p', 'f') "
        "AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)",
        (location.schema,),
    )
    tables, ours = await cursor.fetchone() or (0, 0)
    if tables == 0:
        return None
    if ours < 4:
        raise NotAFrontier(
            f"{location.display_url}: schema {location.schema} has {tables} tables that are not swath's and was left "
            "alone. Name another with ?schema="
        )
    cursor = await connection.execute(location.fill("SELECT format FROM {schema}.frontier"))
    row = await cursor.fetchone()
    if row is None:
        raise StoreUnavailable(f"{location.display_url}: the frontier's own row is missing; restore it from a backup")
    await _check_migrations(connection, location)
    return int(row[0])


async def _check_migrations(connection: AsyncConnection, location: PostgresLocation) -> None:
    """Raise SchemaError if the tables were made from other files than this version has."""
    shipped = {name: hash_migration(name) for _, name in list_migrations()}
    try:
        cursor = await connection.execute(location.fill("SELECT name, hash FROM {schema}.migration ORDER BY number"))
        differing = [name for name, found in await cursor.fetchall() if shipped.get(name, found) != found]
    except pg.UndefinedColumn:
        differing = ["0001_frontier.sql"]
    if differing:
        raise SchemaError(
            f"{location.display_url}: an unreleased version of swath made these tables; its {differing[0]} is not the "
            "one of this version. They cannot be upgraded: finish the work with the version that made them, or open a "
            "new frontier in another schema"
        )
