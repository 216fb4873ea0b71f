"""Wake-ups: a hint that comes at once where the server lets us listen, and a time limit everywhere."""

import asyncio
import time
import warnings
from collections.abc import Collection
from datetime import datetime

import psycopg
import pytest

from swath.backends.postgres import PostgresStore, notify
from swath.backends.postgres.connections import Connections, connect
from swath.conformance.trial import done
from swath.core.store import Settings
from tests.postgres.site import POLL_SECONDS, Site
from tests.recorder import PATIENCE

LONG = 10 * PATIENCE  # a wait that ends in time was woken


async def listeners(site: Site) -> set[tuple[int, datetime]]:
    """The sessions that listen now: their process ids, and when each began, since the system reuses the ids."""
    rows = await site.sql(
        "SELECT pid, backend_start FROM pg_stat_activity "
        "WHERE datname = current_database() AND query = 'LISTEN swath' AND state = 'idle'"
    )
    return set(rows)


async def listening(site: Site, count: int = 1, *, besides: Collection[tuple[int, datetime]] = ()) -> None:
    """Wait until `count` sessions listen, without those in `besides`."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if len((await listeners(site)).difference(besides)) == count:
                return
            await asyncio.sleep(POLL_SECONDS)


async def sleeper(site: Site) -> tuple[PostgresStore, "asyncio.Task[None]"]:
    """A process of its own, as far as the server can tell, that waits for work."""
    store = await site.store()
    waiting = asyncio.create_task(store.wait(LONG))
    await listening(site)
    return store, waiting


async def test_an_addition_elsewhere_wakes(site: Site) -> None:
    store, waiting = await sleeper(site)
    other = await site.trial()
    assert not waiting.done()
    await other.add("work")
    async with asyncio.timeout(PATIENCE):
        await waiting
    assert store is not other.store


async def test_a_change_of_settings_wakes(site: Site) -> None:
    _, waiting = await sleeper(site)
    await (await site.store()).change_settings(paused=True)
    async with asyncio.timeout(PATIENCE):
        await waiting


async def test_a_lane_that_is_resumed_wakes(site: Site) -> None:
    other = await site.trial()
    await other.change_lane("lane", paused=True)
    await other.add("work", lane="lane")
    _, waiting = await sleeper(site)
    site.clock.advance(1)
    await other.change_lane("lane", paused=False)
    async with asyncio.timeout(PATIENCE):
        await waiting


async def test_a_lane_that_is_placed_again_wakes(site: Site) -> None:
    other = await site.trial(settings=Settings(1, min_interval=3_600_000_000))
    await other.add("first", "second")
    assert (await other.claim()).keys == ["first"]
    await other.store.change_settings(min_interval=0)
    _, waiting = await sleeper(site)
    site.clock.advance(1)
    await other.store.requeue_lanes(0, [1])
    async with asyncio.timeout(PATIENCE):
        await waiting


async def test_a_settlement_that_frees_a_lane_wakes(site: Site) -> None:
    other = await site.trial(settings=Settings(1, concurrency=1))
    await other.add("first", "second")
    batch = await other.claim()
    assert batch.keys == ["first"]
    _, waiting = await sleeper(site)
    site.clock.advance(1)
    await batch.finish()
    async with asyncio.timeout(PATIENCE):
        await waiting


async def test_what_is_discovered_for_an_idle_partition_wakes(site: Site) -> None:
    """It goes to an inbox, and whoever drains that may be asleep."""
    other = await site.trial(partitions=2)
    await other.add("page", lane=other.lane(0))
    batch = await other.claim()
    _, waiting = await sleeper(site)
    site.clock.advance(1)
    await batch.settle(done(batch.only), discovered=[other.item("link", lane=other.lane(1))])
    async with asyncio.timeout(PATIENCE):
        await waiting


async def test_discoveries_notify_at_a_bounded_rate(site: Site) -> None:
    """No notification for a partition that has work, for known items, or more often than the rate allows."""
    trial = await site.trial(partitions=3)
    known, idle, busy = (trial.item("link", lane=trial.lane(n)) for n in (1, 1, 2))
    await trial.add(*(f"page{n}" for n in range(30)), lane=trial.lane(0))
    await trial.add("link", lane=trial.lane(1))
    await (await trial.claim(order=[1])).finish()
    await trial.add("ready", lane=trial.lane(2))
    pages = iter((batch := await trial.claim(order=[0])).items)
    onlooker = await connect(site.location.dsn)
    async with onlooker:
        await onlooker.execute("LISTEN swath")

        async def notes() -> int:
            await onlooker.execute("SELECT 1")
            return len([note async for note in onlooker.notifies(timeout=0)])

        for found in (known, busy):
            site.clock.advance(1)
            await batch.settle(done(next(pages)), discovered=[found])
            assert await notes() == 0
        for n in range(20):
            site.clock.advance(0.001)
            await batch.settle(done(next(pages)), discovered=[idle._replace(hash=bytes([n] * 20), key=f"link{n}")])
        assert await notes() == 1
        site.clock.advance(1)
        await batch.settle(done(next(pages)), discovered=[idle._replace(hash=bytes([99] * 20), key="link99")])
        assert await notes() == 1


async def test_an_addition_to_another_frontier_does_not_wake(site: Site, url: str) -> None:
    """One channel serves the whole database; the schema tells them apart."""
    neighbour = Site(f"{url}_neighbour")
    near = await neighbour.trial()
    _, waiting = await sleeper(site)
    await near.add("work")
    onlooker = await connect(site.location.dsn)
    async with onlooker:
        await onlooker.execute("LISTEN swath")
        neighbour.clock.advance(1)
        await (await near.claim()).finish()
        await near.add("more")
        async for note in onlooker.notifies(timeout=PATIENCE, stop_after=1):
            assert note.payload == neighbour.location.schema
    assert not waiting.done()
    waiting.cancel()
    await neighbour.close()


async def test_notifications_come_at_a_bounded_rate(site: Site) -> None:
    """A notification is sent only when a partition goes from idle to ready, and at a bounded rate."""
    trial = await site.trial()
    onlooker = await connect(site.location.dsn)
    async with onlooker:
        await onlooker.execute("LISTEN swath")
        for n in range(20):
            await trial.add(f"busy{n}")  # ready already
        for n in range(20):
            while (batch := await trial.claim()).items:
                await batch.finish()
            site.clock.advance(0.001)
            await trial.add(f"idle{n}")
        notes = [note async for note in onlooker.notifies(timeout=0)]
        assert len(notes) == 1
        while (batch := await trial.claim()).items:
            await batch.finish()
        site.clock.advance(1)
        await trial.add("later")
        notes = [note async for note in onlooker.notifies(timeout=PATIENCE, stop_after=1)]
        assert len(notes) == 1


async def test_an_addition_here_wakes_without_the_server(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_listening(monkeypatch)
    trial = await site.trial()
    waiting = asyncio.create_task(trial.store.wait(LONG))
    await asyncio.sleep(0)
    await trial.add("work")
    async with asyncio.timeout(PATIENCE):
        await waiting


async def test_where_nobody_can_listen_the_time_limit_holds(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection is left, or a pooler stands in between: a wait is a wait."""
    tried = forbid_listening(monkeypatch)
    store = await site.store()
    began = time.monotonic()
    async with asyncio.timeout(PATIENCE):
        await store.wait(0.1)
    assert time.monotonic() - began >= 0.09
    assert tried == [1]


async def test_a_lost_listener_comes_back(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "RETRY_SECONDS", 0.05)
    _, waiting = await sleeper(site)
    ((pid, began),) = await listeners(site)
    await site.sql("SELECT pg_terminate_backend(%s)", pid)
    await listening(site, besides={(pid, began)})  # a terminated session stays in the list until it has run
    assert not waiting.done()
    site.clock.advance(1)
    await (await site.trial()).add("work")
    async with asyncio.timeout(PATIENCE):
        await waiting


async def test_closing_ends_the_listener(site: Site) -> None:
    store, waiting = await sleeper(site)
    waiting.cancel()
    await store.close()
    await listening(site, 0)


def forbid_listening(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    tried: list[int] = []

    async def refuse(dsn: str) -> object:
        tried.append(1)
        raise psycopg.OperationalError("too many connections")

    monkeypatch.setattr(notify, "connect", refuse)
    return tried


async def test_notifications_on_a_lent_connection_are_dropped(site: Site) -> None:
    """A pooler may leave a LISTEN in a session that it lends to others: nobody reads what arrives there."""
    lending = Connections(lambda: connect(site.location.dsn))
    trial = await site.trial(connections=lending)
    async with lending.lend() as connection:
        await connection.execute("LISTEN swath")
    for n in range(3):
        await site.sql("SELECT pg_notify('swath', %s)", str(n))
        await trial.add(f"work{n}")
    async with lending.lend() as again:
        assert again is connection
        await again.execute("SELECT 1")
        with warnings.catch_warnings(action="ignore"):  # that a handler took what would be here
            assert [note async for note in again.notifies(timeout=0)] == []
