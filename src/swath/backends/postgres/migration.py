"""Creating a frontier and bringing one up to date. Tables come from numbered files, frozen once released; the functions
in `functions/` are replaced as a whole with every migration."""

from collections.abc import Sequence
from importlib.resources import files

from swath.backends import sql
from swath.backends.postgres.connections import AsyncConnection, connect
from swath.backends.postgres.errors import FORMAT, translated, wrong_format
from swath.backends.postgres.location import Target
from swath.backends.postgres.statements import FUNCTIONS, PACKAGE
from swath.core.errors import NotAFrontier, StoreUnavailable
from swath.core.store import Settings

LOCK_SECONDS = 30.0  # for which a migration waits for a lock, while it holds others


def migrations() -> Sequence[tuple[int, str]]:
    """The numbered files, in order."""
    names = sorted(entry.name for entry in files(f"{PACKAGE}.migrations").iterdir() if entry.name.endswith(".sql"))
    return [(int(name.partition("_")[0]), name) for name in names]


async def create(connection: AsyncConnection, target: Target, settings: Settings) -> None:
    """Make the frontier in its schema, unless somebody else just did. All of it or nothing."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"swath {target.schema}",))
        if await stored_format(connection, target) is not None:
            return
        cursor = await connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (target.schema,))
        if not await cursor.fetchone():  # IF NOT EXISTS wants the right to create one, also where it is there
            await connection.execute(target.fill("CREATE SCHEMA {schema}"))
        await _apply(connection, target, above=0)
        await connection.execute(
            target.fill(
                "INSERT INTO {schema}.frontier (format, partitions, min_interval, concurrency, max_attempts) "
                "VALUES (%s, %s, %s, %s, %s)"
            ),
            (FORMAT, *settings),
        )
        await connection.execute(
            target.fill("INSERT INTO {schema}.partition SELECT generate_series(0, %s - 1)"), (settings.partitions,)
        )
        await connection.execute(
            target.fill(
                "INSERT INTO {schema}.partition_state (partition, version) SELECT partition, 1 FROM {schema}.partition"
            )
        )


async def migrate(url: str) -> Sequence[str]:
    """Bring the frontier at `url` up to date while others work on it; return the names of what was applied.

    It holds every partition's lock, in order; workers with an older format stop with SchemaTooNew at their next move.
    Where somebody else holds one for too long, nothing is changed and StoreUnavailable is raised.
    """
    target = Target.parse(url)
    with translated(target.shown, doing="migrating"):
        connection = await connect(target.dsn)
        try:
            async with connection.transaction():
                if await stored_format(connection, target) is None:
                    raise NotAFrontier(f"{target.shown} has no frontier to migrate: `swath db init` makes one")
                await connection.execute(f"SET LOCAL lock_timeout TO {LOCK_SECONDS * 1_000:.0f}")
                await connection.execute(
                    target.fill("SELECT partition FROM {schema}.partition ORDER BY partition FOR UPDATE")
                )
                found = await stored_format(connection, target)  # lock, then look: somebody else may have migrated it
                assert found is not None
                if found > FORMAT:
                    raise wrong_format(found, target.shown)
                applied = await _apply(connection, target, above=found)
                await connection.execute(target.fill("UPDATE {schema}.frontier SET format = %s"), (FORMAT,))
            return applied
        finally:
            await connection.close()


async def _apply(connection: AsyncConnection, target: Target, *, above: int) -> Sequence[str]:
    applied = []
    for number, name in migrations():
        if number > above:
            await connection.execute(target.fill(sql.read(f"{PACKAGE}.migrations", name)))
            await connection.execute(
                target.fill("INSERT INTO {schema}.migration (number, name) VALUES (%s, %s)"), (number, name)
            )
            applied.append(name)
    for statement in FUNCTIONS.values():
        await connection.execute(target.fill(statement, fence_sequence=target.fill("{schema}.fence")))
    return applied


async def stored_format(connection: AsyncConnection, target: Target) -> int | None:
    """The format of the frontier in this schema; None when the schema has no tables at all."""
    cursor = await connection.execute(
        "SELECT count(*), count(*) FILTER (WHERE relname IN ('frontier', 'partition_state', 'lane_state', 'seen')) "
        "FROM pg_class WHERE relkind IN ('r', 'p', 'f') "
        "AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)",
        (target.schema,),
    )
    tables, ours = await cursor.fetchone() or (0, 0)
    if tables == 0:
        return None
    if ours < 4:
        raise NotAFrontier(
            f"{target.shown}: schema {target.schema} has {tables} tables that are not swath's and was left alone. "
            "Name another with ?schema="
        )
    cursor = await connection.execute(target.fill("SELECT format FROM {schema}.frontier"))
    row = await cursor.fetchone()
    if row is None:
        raise StoreUnavailable(f"{target.shown}: the frontier's own row is missing; restore it from a backup")
    return int(row[0])
