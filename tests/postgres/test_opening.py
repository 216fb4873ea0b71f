"""Opening: what is there is used, what is not is made, what is somebody else's is left alone; errors say what to do."""

import asyncio
import multiprocessing
import secrets
from multiprocessing.queues import SimpleQueue
from urllib.parse import quote

import pytest

from swath.backends.postgres import PostgresStore
from swath.backends.postgres.location import PostgresLocation
from swath.core.errors import NotAFrontier, StoreUnavailable, SwathError, UsageError
from swath.core.store import Settings
from swath.frontier import Frontier
from tests.bench import nothing
from tests.conftest import StartPostgres
from tests.postgres.site import Site
from tests.recorder import PATIENCE

SETTINGS = Settings(4, 5, 6, 7)
SPAWN = multiprocessing.get_context("spawn")


async def tables(site: Site) -> set[str]:
    rows = await site.sql("SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace", site.location.schema)
    return {name for (name,) in rows}


async def test_created_once(site: Site) -> None:
    first = await site.store(SETTINGS)
    assert first.settings == SETTINGS
    again = await site.store(Settings(9))
    assert again.settings == SETTINGS, "what is there stays as it is"


async def test_create_false_makes_nothing(site: Site) -> None:
    with pytest.raises(NotAFrontier, match="swath db init"):
        await PostgresStore.open(site.url, create=False)
    assert await site.sql("SELECT 1 FROM pg_namespace WHERE nspname = %s", site.location.schema) == []


async def test_a_closed_frontier_is_not_waited_for(site: Site) -> None:
    frontier = Frontier(await site.store())
    await frontier.close()
    for move in (frontier.claim(), frontier.run(nothing)):
        with pytest.raises(UsageError, match="was closed: open it again"):
            await asyncio.wait_for(move, PATIENCE)


async def test_an_empty_schema_is_used(site: Site) -> None:
    await site.sql("CREATE SCHEMA {schema}")
    assert (await site.store(SETTINGS)).settings == SETTINGS


@pytest.mark.parametrize(
    "relation",
    [
        "TABLE {schema}.precious AS SELECT 1 AS one",
        "TABLE {schema}.item (a integer)",
        "TABLE {schema}.precious (a integer) PARTITION BY HASH (a)",
    ],
)
@pytest.mark.parametrize("create", [True, False])
async def test_a_schema_of_somebody_else_is_left_alone(site: Site, relation: str, create: bool) -> None:
    await site.sql("CREATE SCHEMA {schema}")
    await site.sql(f"CREATE {relation}")
    before = await tables(site)
    with pytest.raises(NotAFrontier, match=rf"{site.location.schema}.*\?schema="):
        await PostgresStore.open(site.url, settings=SETTINGS, create=create)
    assert await tables(site) == before


def open_in_process(url: str, opened: "SimpleQueue[object]") -> None:
    async def go() -> Settings:
        store = await PostgresStore.open(url, settings=SETTINGS)
        await store.close()
        return store.settings

    opened.put(asyncio.run(go()))


async def test_many_create_the_same_at_once(site: Site) -> None:
    """Tasks and processes: one makes it, all of them have it."""
    opened: SimpleQueue[object] = SPAWN.SimpleQueue()
    processes = [SPAWN.Process(target=open_in_process, args=(site.url, opened)) for _ in range(2)]
    for process in processes:
        process.start()
    stores = await asyncio.gather(*(site.store(SETTINGS) for _ in range(6)))
    for process in processes:
        await asyncio.to_thread(process.join, 60)
        assert process.exitcode == 0
    assert {store.settings for store in stores} == {SETTINGS}
    assert [opened.get() for _ in processes] == [tuple(SETTINGS)] * 2
    assert await site.sql("SELECT count(*) FROM {schema}.partition_state") == [(4,)]
    assert len((await stores[0].status()).partitions) == 4


async def test_a_failed_creation_leaves_nothing(site: Site) -> None:
    """All of it or nothing."""
    with pytest.raises(SwathError):
        await PostgresStore.open(site.url, settings=Settings(1_000_000))
    assert await site.sql("SELECT 1 FROM pg_namespace WHERE nspname = %s", site.location.schema) == []
    assert (await site.store(SETTINGS)).settings == SETTINGS


async def test_a_role_that_may_not_create(site: Site, role: str) -> None:
    url = site.url.replace("postgres@", f"{role}@")
    with pytest.raises(SwathError, match=r"permission denied for database (.*)\. Grant .* CREATE ON DATABASE \1,"):
        await PostgresStore.open(url, settings=SETTINGS)
    assert await site.sql("SELECT 1 FROM pg_namespace WHERE nspname = %s", site.location.schema) == []


async def test_a_role_with_a_schema_of_its_own(site: Site, role: str) -> None:
    """It needs no right to create schemas when there is one that it owns."""
    await site.sql(f"CREATE SCHEMA {{schema}} AUTHORIZATION {role}")
    store = await PostgresStore.open(site.url.replace("postgres@", f"{role}@"), settings=SETTINGS)
    site.opened.append(store)
    assert store.settings == SETTINGS


async def test_a_frontier_that_this_role_may_not_use(site: Site, role: str) -> None:
    await site.store(SETTINGS)
    with pytest.raises(SwathError, match=r"permission denied for schema (\w+)\. Grant .* USAGE ON SCHEMA \1,"):
        await PostgresStore.open(site.url.replace("postgres@", f"{role}@"))


async def test_a_schema_that_was_dropped(site: Site) -> None:
    store = await site.store(SETTINGS)
    await site.sql("DROP SCHEMA {schema} CASCADE")
    with pytest.raises(NotAFrontier, match="swath db init"):
        await store.status()


async def test_a_database_that_does_not_exist(database: str) -> None:
    url = database.replace(PostgresLocation.parse(database).dsn.split("?")[0].rsplit("/", 1)[1], "no_such_database")
    with pytest.raises(StoreUnavailable, match="no_such_database"):
        await PostgresStore.open(url, settings=SETTINGS)


async def test_no_password_is_said(start_postgres: StartPostgres, caplog: pytest.LogCaptureFixture) -> None:
    """Wrong passwords, a server that is down: the error says where, never with what."""
    server = start_postgres(tcp=True)
    secret = f"s3cret{secrets.token_hex(8)}"
    dsn = server.dsn(tcp=True)
    right = dsn.split(":", 2)[2].split("@")[0]
    for url in (
        dsn.replace(right, secret),
        dsn.replace(right, quote(f"{secret}/@:x", safe="")),
        f"{dsn.replace(f':{right}', '')}?password={secret}",
    ):
        with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1") as caught:
            await PostgresStore.open(url, settings=SETTINGS)
        assert "password authentication failed" in str(caught.value)
        assert_silent(caught.value, secret)
    store = await PostgresStore.open(dsn, settings=SETTINGS)
    server.stop("immediate")
    with pytest.raises(StoreUnavailable, match="Is the server running") as caught:
        await store.status()
    assert_silent(caught.value, right)
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1") as caught:
        await PostgresStore.open(dsn, settings=SETTINGS)
    assert_silent(caught.value, right)
    await store.close()
    assert right not in caplog.text
    assert secret not in caplog.text


def assert_silent(error: BaseException | None, secret: str) -> None:
    while error is not None:
        assert secret not in str(error)
        assert secret not in repr(error)
        error = error.__cause__ or error.__context__
