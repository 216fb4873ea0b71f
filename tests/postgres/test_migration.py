"""Migrations run once, while others work. Older workers stop with an error that says what to do."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from swath.backends import sql
from swath.backends.postgres import PostgresStore, migrate, migration
from swath.backends.postgres import format as table_format
from swath.conformance.trial import Trial, done
from swath.core.errors import NotAFrontier, SchemaOutdated, SchemaTooNew, StoreUnavailable
from swath.core.store import AuditChange, ClaimRequest, Fact, LaneChange, Settings
from tests.postgres.site import Site
from tests.recorder import PATIENCE

NEXT = table_format.FORMAT + 1
ADDITION = "ALTER TABLE {schema}.done ADD COLUMN later integer"

SHAPE = """
SELECT 'column', table_name, column_name, data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '')
FROM information_schema.columns WHERE table_schema = %(schema)s
UNION ALL
SELECT 'index', tablename, indexname, replace(indexdef, %(schema)s, '') FROM pg_indexes WHERE schemaname = %(schema)s
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = %(schema)s::regnamespace
UNION ALL
SELECT 'function', proname, '', replace(pg_get_functiondef(oid), %(schema)s, '')
FROM pg_proc WHERE pronamespace = %(schema)s::regnamespace
UNION ALL
SELECT 'view', viewname, '', replace(definition, %(schema)s, '') FROM pg_views WHERE schemaname = %(schema)s
UNION ALL
SELECT 'sequence', sequencename, data_type::text, increment_by::text FROM pg_sequences WHERE schemaname = %(schema)s
UNION ALL
SELECT 'migration', number::text, name, '' FROM {schema}.migration
"""


async def shape(site: Site) -> set[Any]:
    """Everything that a schema is made of, without its name."""
    schema = site.location.schema
    connection = await site.connect()
    rows = await (await connection.execute(site.location.fill(SHAPE), {"schema": schema})).fetchall()
    return {tuple(str(field).replace(f"{schema}.", "") for field in row) for row in rows}


@pytest.fixture
def a_release_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The migrations of a later day. Stores of this process go on as the older workers that they are."""
    files = [*migration.list_migrations(), (NEXT, f"{NEXT:04}_later.sql")]
    read = sql.read

    def later(package: str, name: str) -> str:
        return ADDITION if name.endswith("_later.sql") else read(package, name)

    monkeypatch.setattr(migration, "list_migrations", lambda: files)
    monkeypatch.setattr(sql, "read", later)
    for module in (table_format, migration):
        monkeypatch.setattr(module, "FORMAT", NEXT)


async def test_the_migrations_are_recorded(site: Site) -> None:
    await site.store()
    rows = await site.sql("SELECT number, name FROM {schema}.migration ORDER BY number")
    assert rows == list(migration.list_migrations())
    assert [number for number, _ in rows] == list(range(1, table_format.FORMAT + 1))


async def test_an_older_format_says_which_command(site: Site) -> None:
    await site.store()
    await site.sql("UPDATE {schema}.frontier SET format = %s", table_format.FORMAT - 1)
    with pytest.raises(SchemaOutdated, match=rf"format {table_format.FORMAT - 1}") as caught:
        await PostgresStore.open(site.url)
    assert f"run `swath db migrate --store '{site.location.display_url}'`" in str(caught.value)


async def test_a_newer_format_is_refused(site: Site) -> None:
    await site.store()
    await site.sql("UPDATE {schema}.frontier SET format = %s", NEXT)
    with pytest.raises(SchemaTooNew, match=rf"format {NEXT}.*upgrade swath"):
        await PostgresStore.open(site.url)
    with pytest.raises(SchemaTooNew):
        await migrate(site.url)


async def test_older_workers_stop_with_their_own_error(site: Site) -> None:
    """Every move reads the format with the lock; what they held is taken over later."""
    store = await site.store()
    trial = Trial(store, site.clock)
    await trial.add("a", "b")
    batch = await trial.claim(1)
    await site.sql("UPDATE {schema}.frontier SET format = %s", NEXT)
    (found,) = await trial.find("a")
    moves: dict[str, Callable[[], Awaitable[object]]] = {
        "add": lambda: trial.add("c"),
        "claim": trial.claim,
        "settle": batch.finish,
        "change_lane": lambda: trial.store.change_lane(0, "lane", LaneChange(paused=True)),
        "reopen": lambda: trial.store.reopen([(0, 1)]),
        "renew": batch.renew,
        "find_claim": lambda: store._find_claim(ClaimRequest(1, 90_000_000, "worker", batch.ref.token, [0])),
        "change_settings": lambda: trial.store.change_settings(paused=True, max_attempts=9),
        "learn": lambda: trial.store.learn([Fact("a", "1")]),
    }
    for name, move in moves.items():
        with pytest.raises(SchemaTooNew, match=f"format {NEXT}"):
            await move()
        assert await trial.find("a") == [found], name
    assert (await trial.status()).claimed == 1
    assert await trial.store.facts(["a"]) == {}
    assert not (await trial.store.signal()).paused


async def test_a_partition_that_is_held_for_long_stops_the_migration_and_not_the_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it waits for the last partition, it holds all the others."""
    monkeypatch.setattr(migration, "LOCK_SECONDS", 0.1)
    trial = await site.trial(partitions=2)
    await trial.add("a", lane=trial.lane(0))
    holder = await site.lock(1)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(StoreUnavailable, match="lock timeout"):
            await migrate(site.url)
    assert (await trial.claim()).keys == ["a"]
    await holder.commit()
    assert await migrate(site.url) == []


async def test_older_workers_stop_also_when_there_is_nothing_to_do(site: Site) -> None:
    trial = await site.trial()
    await site.sql("UPDATE {schema}.frontier SET format = %s", NEXT)
    with pytest.raises(SchemaTooNew):
        await trial.claim()


@pytest.mark.usefixtures("a_release_later")
async def test_replayed_migrations_make_what_creation_makes(url: str, site: Site) -> None:
    """The shape of a frontier that grew with every release is that of a new one."""
    fresh = Site(f"{url}_fresh")
    await fresh.store()
    with pytest.MonkeyPatch.context() as then:  # each release as it was
        for upto in range(1, NEXT + 1):
            then.setattr(table_format, "FORMAT", upto)
            then.setattr(migration, "FORMAT", upto)
            files = list(migration.list_migrations())[:upto]
            with pytest.MonkeyPatch.context() as files_then:
                files_then.setattr(migration, "list_migrations", lambda files=files: files)
                if upto == 1:
                    await site.store()
                else:
                    assert await migrate(site.url) == [files[-1][1]]
    assert await shape(site) == await shape(fresh)
    assert len(await shape(site)) > 100
    await fresh.close()


@pytest.mark.usefixtures("a_release_later")
async def test_migrate_twice_changes_nothing(site: Site) -> None:
    await site.store()
    before = await shape(site)
    assert await migrate(site.url) == []
    assert await shape(site) == before


async def test_migrate_waits_for_those_who_hold_locks(site: Site, request: pytest.FixtureRequest) -> None:
    """It takes all partition locks; who works meanwhile finishes first, who comes later finds the new format."""
    trial = await site.trial(settings=Settings(3))
    lane = trial.lane(2)
    await trial.add("a", "b", lane=lane)
    batch = await trial.claim(1, order=[2])
    async with site.held_open() as (worker, connection):
        await worker.add("held", lane=lane)
        request.getfixturevalue("a_release_later")
        migrating = asyncio.create_task(migrate(site.url))
        await site.waiting()
        late = asyncio.create_task(batch.settle(done(batch.only), partition=2))
        await site.waiting(2)
        assert not migrating.done()
        await connection.commit()
    assert await migrating == [f"{NEXT:04}_later.sql"]
    with pytest.raises(SchemaTooNew):
        await late
    assert await site.sql("SELECT count(*) FROM {schema}.item") == [(2,)]
    assert await site.sql("SELECT format FROM {schema}.frontier") == [(NEXT,)]


async def test_two_migrations_at_once(site: Site, request: pytest.FixtureRequest) -> None:
    """One applies it, the other finds it done."""
    await site.store()
    request.getfixturevalue("a_release_later")
    applied = await asyncio.gather(migrate(site.url), migrate(site.url), migrate(site.url))
    assert sorted(map(len, applied)) == [0, 0, 1]
    assert await site.sql("SELECT number FROM {schema}.migration ORDER BY number") == [
        (number,) for number in range(1, NEXT + 1)
    ]


async def test_a_failed_migration_leaves_everything_as_it_was(site: Site, request: pytest.FixtureRequest) -> None:
    trial = await site.trial()
    await trial.add("a")
    await site.sql("ALTER TABLE {schema}.done ADD COLUMN later integer")
    before = await shape(site)
    with pytest.MonkeyPatch.context():
        request.getfixturevalue("a_release_later")
        with pytest.raises(Exception, match="already exists"):
            await migrate(site.url)
        request.getfixturevalue("monkeypatch").undo()
    assert await shape(site) == before
    assert (await trial.claim()).keys == ["a"]


async def test_nothing_to_migrate(site: Site) -> None:
    with pytest.raises(NotAFrontier, match="swath db init"):
        await migrate(site.url)
    assert await site.sql("SELECT 1 FROM pg_namespace WHERE nspname = %s", site.location.schema) == []


async def test_a_frontier_of_format_1_continues_after_its_migration(site: Site, role: str) -> None:
    """Claims of the earlier format are settled, and roles that used the tables may use the new ones."""
    trial = await site.trial()
    expected = await shape(site)
    await trial.add("a", "b")
    batch = await trial.claim(1)
    for statement in (
        "DROP TABLE {schema}.milestone",
        "DROP TABLE {schema}.audit",
        "ALTER TABLE {schema}.claim DROP COLUMN claimed_at",
        "DELETE FROM {schema}.migration WHERE number > 1",
        "UPDATE {schema}.frontier SET format = 1",
        f"GRANT USAGE ON SCHEMA {{schema}} TO {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {{schema}} TO {role}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {{schema}} TO {role}",
    ):
        await site.sql(statement)
    with pytest.raises(SchemaOutdated):
        await batch.finish()
    assert await migrate(site.url) == ["0002_history.sql"]
    assert await shape(site) == expected
    (held,) = await trial.store.claims()
    assert (held.claimed_at, held.items) == (0, 1)
    await batch.finish()
    site.clock.advance(100)
    theirs = await PostgresStore.open(site.url.replace("postgres@", f"{role}@"), clock=site.clock)
    site.opened.append(theirs)
    await theirs.audit_change(AuditChange("ann@host", "pause", None, None, None))
    assert len(await theirs.audit()) == 1
    assert await Trial(theirs, site.clock).add("c") == 1
    assert len((await Trial(theirs, site.clock).claim()).items) == 2
