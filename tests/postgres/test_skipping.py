"""A claim skips a locked partition and says so: skipped does not mean empty. A later claim waits for the lock."""

import asyncio

import pytest

from swath import frontier as frontier_module
from swath.core.clock import SECOND
from swath.core.errors import StoreUnavailable
from swath.core.item import Item
from swath.core.store import ClaimRequest, Settings
from swath.frontier import Frontier
from tests.postgres.site import Site
from tests.recorder import PATIENCE


async def test_claim_skips_what_somebody_holds_and_says_so(site: Site) -> None:
    trial = await site.trial(partitions=2)
    await trial.add("held", lane=trial.lane(0))
    await trial.add("free", lane=trial.lane(1))
    holder = await site.lock(0)
    batch = await trial.claim(order=[0, 1])
    assert batch.keys == ["free"]
    assert batch.reply.skipped == [0]
    batch = await trial.claim(order=[0, 1])
    assert (batch.keys, batch.reply.skipped, batch.reply.fence) == ([], [0], 0)
    await holder.commit()
    batch = await trial.claim(order=[0, 1])
    assert (batch.keys, batch.reply.skipped) == (["held"], [])


async def test_an_idle_partition_is_not_even_locked(site: Site) -> None:
    """Nothing is ready there: that somebody holds it is no reason to call it skipped."""
    trial = await site.trial(partitions=2)
    await trial.add("free", lane=trial.lane(1))
    await site.lock(0)
    batch = await trial.claim(order=[0, 1])
    assert (batch.keys, batch.reply.skipped) == (["free"], [])


async def test_the_frontier_queues_after_two_skips(site: Site) -> None:
    frontier = Frontier(await site.store())
    await frontier.add(Item("held"))
    holder = await site.lock(0)
    for _ in range(2):
        claim, reply = await frontier._claimer.claim(100, lease=60)
        assert (claim, reply.skipped) == (None, [0])
    third = asyncio.create_task(frontier._claimer.claim(100, lease=60))
    await site.waiting()
    assert not third.done()
    await holder.commit()
    async with asyncio.timeout(PATIENCE):
        claim, _ = await third
    assert claim is not None
    assert [item.key for item in claim.items] == ["held"]


async def test_a_claim_that_waited_goes_by_the_default_of_then(site: Site) -> None:
    """INV-3: whoever makes starts count holds the lock; a claim that waited for it looks at the default again."""
    trial = await site.trial(settings=Settings(1, 10 * SECOND, 1))
    await trial.add("a", "b")
    await site.sql("ALTER FUNCTION {schema}.claim_{set} SET lock_timeout TO '60s'")
    async with site.held_open() as (other, transaction):
        await other.store.change_settings(concurrency=2)
        request = ClaimRequest(100, 60 * SECOND, "worker", 1, [0], wait_for=0)
        waits = asyncio.create_task(trial.store.claim(request))
        await site.waiting()
        await transaction.commit()
        async with asyncio.timeout(PATIENCE):
            reply = await waits
    assert ([item.key for item in reply.items], reply.starts_count) == (["a"], True)
    assert (await trial.claim()).keys == [], "it was started a moment ago"


@pytest.mark.parametrize("concurrency", [0, 1])
async def test_a_looser_default_reaches_lanes_that_are_placed_meanwhile(site: Site, concurrency: int) -> None:
    """Whoever places a lane at that moment goes by the default of before, and could commit when the lanes that wait
    have been told: so the default waits for the partition."""
    trial = await site.trial(settings=Settings(1, 3_600 * SECOND, concurrency))
    await trial.add("first")
    await (await trial.claim()).finish()
    frontier = Frontier(trial.store)
    async with site.held_open() as (other, transaction):
        await other.add("second")
        changing = asyncio.create_task(frontier.configure(min_interval=0))
        await site.waiting()
        await transaction.commit()
    async with asyncio.timeout(PATIENCE):
        await changing
    assert (await trial.claim()).keys == ["second"]
    await trial.check()


async def test_a_claim_does_not_wait_for_whoever_settles_after_the_end_of_its_lease(site: Site) -> None:
    """Both lock the claim's row. Its worker is alive and keeps its items in the other partitions."""
    trial = await site.trial(partitions=2)
    await trial.add("a", lane=trial.lane(0))
    await trial.add("b", "c", lane=trial.lane(1))
    late = await trial.claim(2, lease=30)
    assert late.keys == ["a", "b"]
    site.clock.advance(31)
    async with site.held_open() as (holder, transaction):
        late.store = holder.store
        await late.finish("a")
        batch = await trial.claim(order=[1])
        assert (batch.keys, batch.reply.recovered) == (["c"], 0)
        await transaction.commit()
    late.store = trial.store
    await late.finish("b")
    await trial.check()


async def test_a_claim_gets_what_was_held_for_a_moment(site: Site) -> None:
    frontier = Frontier(await site.store())
    await frontier.add(Item("held"))
    holder = await site.lock(0)
    claiming = asyncio.create_task(frontier.claim())
    await site.waiting()
    await holder.commit()
    async with asyncio.timeout(PATIENCE):
        claim = await claiming
    assert claim is not None
    assert [item.key for item in claim.items] == ["held"]


async def test_a_claim_says_when_what_is_ready_stays_held(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontier_module, "BUSY_SECONDS", 0.5)
    frontier = Frontier(await site.store())
    await frontier.add(Item("held"))
    await site.lock(0)
    with pytest.raises(StoreUnavailable, match="other transactions held every ready item"):
        await frontier.claim()


async def test_a_loop_of_claims_ends_when_nothing_is_ready_and_not_before(site: Site) -> None:
    """Several of them on one partition, each of which finds it locked now and then."""
    store = await site.store()
    await Frontier(store).add([Item(f"key{n}", lane=f"lane{n % 50}") for n in range(1_000)])

    async def cover() -> int:
        frontier = Frontier(store)
        while (claim := await frontier.claim(20)) is not None:
            await claim.settle([item.done() for item in claim.items])
        return sum(part.ready for part in (await store.status()).partitions)

    assert await asyncio.gather(*[cover() for _ in range(4)]) == [0] * 4


async def test_waiting_has_a_time_limit(site: Site) -> None:
    """The holder never lets go: the claimer is told so, gets what is free elsewhere, and leaves no setting behind."""
    store = await site.store(partitions=2)
    frontier = Frontier(store)
    await frontier.add([Item(f"key{n}", lane=f"lane{n}") for n in range(20)])
    holder = await site.lock(0)
    async with asyncio.timeout(PATIENCE):
        reply = await store.claim(ClaimRequest(100, 60 * SECOND, "worker", 1, [1, 0], wait_for=0))
    assert {item.partition for item in reply.items} == {1}
    assert reply.skipped == [0]
    assert holder.info.transaction_status.name == "INTRANS"
    status = (await store.status()).partitions
    assert (status[0].claimed, status[1].ready) == (0, 0)


async def test_what_was_committed_while_queueing_is_seen(site: Site) -> None:
    """A claim that waited reads the state after the lock was granted."""
    trial = await site.trial()
    await trial.add("first")
    async with site.held_open() as (adder, connection):
        await adder.add("second")
        claiming = asyncio.create_task(trial.store.claim(ClaimRequest(100, 60 * SECOND, "worker", 1, [0], wait_for=0)))
        await site.waiting()
        await connection.commit()
    assert [item.key for item in (await claiming).items] == ["first", "second"]
    await trial.check()
