"""Rule 11: skipped is not empty. A partition that somebody holds is passed by, and waited for in the end."""

import asyncio

from swath.core.clock import SECOND
from swath.core.frontier import Frontier
from swath.core.item import Item
from swath.core.store import ClaimRequest
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
    assert await frontier.claim() is None
    assert await frontier.claim() is None
    third = asyncio.create_task(frontier.claim())
    await site.waiting()
    assert not third.done()
    await holder.commit()
    async with asyncio.timeout(PATIENCE):
        claim = await third
    assert claim is not None
    assert [item.key for item in claim.items] == ["held"]


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
    """Rule 1 for those who wait: the state is read after the lock was granted."""
    trial = await site.trial()
    await trial.add("first")
    async with site.held_open() as (adder, connection):
        await adder.add("second")
        claiming = asyncio.create_task(trial.store.claim(ClaimRequest(100, 60 * SECOND, "worker", 1, [0], wait_for=0)))
        await site.waiting()
        await connection.commit()
    assert [item.key for item in (await claiming).items] == ["first", "second"]
    await trial.check()
