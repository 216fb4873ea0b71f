"""INV-3. The database's clock is read after the lock, and the time of a partition never goes back."""

import time

import pytest

from swath.backends.postgres import PostgresStore
from swath.conformance.trial import Trial, done, retry
from swath.core.clock import SECOND, ManualClock
from swath.core.store import Settings
from tests.postgres.site import Site

HOUR = 3_600 * SECOND


@pytest.fixture
def system() -> ManualClock:
    """What the database's clock shows, about: enough to write a time into an item."""
    return ManualClock(time.time_ns() // 1_000)


async def production(site: Site, system: ManualClock, settings: Settings) -> Trial:
    store = await PostgresStore.open(site.url, settings=settings)
    site.opened.append(store)
    return Trial(store, system)


async def test_production_uses_the_databases_clock(site: Site, system: ManualClock) -> None:
    trial = await production(site, system, Settings(1, min_interval=HOUR, concurrency=1))
    ((before,),) = await site.sql("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
    await trial.add("first", "second")
    batch = await trial.claim(lease=60)
    assert batch.keys == ["first"]
    reply = await batch.finish()
    ((after,),) = await site.sql("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
    assert before <= batch.reply.now <= reply.now <= after
    assert batch.reply.expires_at == batch.reply.now + 60 * SECOND
    ready_at = (await trial.lane_status()).ready_at
    assert ready_at == reply.now + HOUR
    empty = await trial.claim()
    assert empty.reply.next_ready_at is not None
    assert empty.reply.now < empty.reply.next_ready_at <= ready_at, "it may look once too often, never too late"
    assert before <= (await trial.store.status()).now


async def test_a_step_back_makes_work_wait(site: Site, system: ManualClock) -> None:
    """The partition's time is an hour ahead of the clock, as after a step back. Nothing starts early, nothing goes
    back, and new work is paced by the partition's time."""
    trial = await production(site, system, Settings(1, min_interval=10 * SECOND, concurrency=1))
    await trial.add("first", "second")
    await (await trial.claim(1)).finish()
    await site.sql("UPDATE {schema}.partition_state SET time = time + %s", HOUR)
    ahead = (await trial.status()).time
    due = (await trial.lane_status()).ready_at
    assert due is not None
    assert due < ahead
    batch = await trial.claim(1)  # its interval is over in the partition's time
    assert batch.keys == ["second"]
    assert ahead < batch.reply.now < ahead + 60 * SECOND
    assert batch.reply.expires_at >= batch.reply.now
    last = ahead
    for key in ("third", "fourth"):
        await trial.add(key)
        now = (await trial.status()).time
        assert last < now
        last = now
    settled = await batch.finish()
    assert settled.now > last
    ready_at = (await trial.lane_status()).ready_at
    assert ready_at == settled.now + 10 * SECOND
    assert (await trial.claim()).keys == [], "an hour and ten seconds from now, by the clock"
    await trial.check()


async def test_a_lease_outlives_a_step_back(site: Site, system: ManualClock) -> None:
    """INV-1. A lease that was given by a time ahead of the clock ends by that time, not sooner."""
    trial = await production(site, system, Settings(1))
    await site.sql("UPDATE {schema}.partition_state SET time = %s", time.time_ns() // 1_000 + HOUR)
    await trial.add("work")
    batch = await trial.claim(lease=5)
    assert batch.keys == ["work"]
    assert (await trial.claim()).keys == []
    await batch.renew(5)
    await batch.settle(retry(batch.only, after=5))
    assert (await trial.claim()).keys == []
    await trial.check()


async def test_partition_time_never_stands_still(site: Site) -> None:
    """With a clock that does not move, every change still has a time of its own."""
    trial = await site.trial()
    times = []
    for n in range(3):
        await trial.add(f"key{n}")
        times.append((await trial.status()).time)
    batch = await trial.claim(1)
    times.append((await trial.status()).time)
    times.append((await batch.settle(done(batch.only))).now)
    assert times == sorted(set(times))
