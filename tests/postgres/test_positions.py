"""Functions lock first and read then: positions commit in order, and a later transaction sees the earlier ones."""

import asyncio

import pytest

from swath.conformance.trial import Trial, done
from swath.core.clock import SECOND
from swath.core.store import ClaimRequest
from swath.core.validation import MAX_SPAN
from tests.postgres.site import Site
from tests.recorder import PATIENCE


async def test_an_uncommitted_addition_is_waited_for(site: Site) -> None:
    """Those who would pass it wait, or skip the partition and say so; the order of positions is that of commits."""
    trial = await site.trial()
    await trial.add("first")
    async with site.held_open() as (adder, connection):
        await adder.add("held")
        batch = await trial.claim()
        assert batch.keys == []
        assert batch.reply.skipped == [0]
        later = asyncio.create_task(trial.add("later"))
        await site.waiting()
        status = await trial.status()
        assert (status.ready, status.end, status.checkpoint) == (1, 1, 0)
        await connection.commit()
    assert await later == 1
    batch = await trial.claim()
    assert [(item.key, item.position) for item in batch.items] == [("first", 1), ("held", 2), ("later", 3)]
    assert (await batch.finish()).checkpoint == 3
    await trial.check()


@pytest.mark.parametrize(("ends", "checkpoint"), [("COMMIT", 1), ("ROLLBACK", 1)])
async def test_the_checkpoint_does_not_pass_a_late_commit(site: Site, ends: str, checkpoint: int) -> None:
    """INV-6. A settlement that began before an addition committed still sees it."""
    trial = await site.trial()
    await trial.add("first")
    batch = await trial.claim()
    async with site.held_open() as (adder, connection):
        await adder.add("held")
        settling = asyncio.create_task(batch.finish())
        await site.waiting()
        assert (await trial.status()).checkpoint == 0
        await connection.execute(ends.encode())
    assert (await settling).checkpoint == checkpoint
    status = await trial.status()
    assert status.end == (2 if ends == "COMMIT" else 1)
    held = await trial.claim()
    assert held.keys == (["held"] if ends == "COMMIT" else [])
    if held.items:
        assert (await held.finish()).checkpoint == 2
    await trial.check()


async def test_the_checkpoint_passes_a_million_of_the_widest_ranges(site: Site) -> None:
    """INV-6. However far it is from one unsettled item to the next."""
    trial = await site.trial()
    await trial.add("first")
    await site.sql("UPDATE {schema}.partition_state SET next_position = %s", 1_000_000 * MAX_SPAN)  # all settled
    await trial.add("last")
    batch = await trial.claim()
    assert (await batch.finish("last")).checkpoint == 0
    assert (await batch.finish("first")).checkpoint == 1_000_000 * MAX_SPAN
    await trial.check()


async def test_a_claim_looks_again_once_it_has_the_lock(site: Site) -> None:
    """What told it that there is something to do is old by then: it is held up after that, and somebody adds."""
    trial = await site.trial(partitions=2)
    await trial.add("source", lane=trial.lane(0))
    batch = await trial.claim()
    await batch.settle(done(batch.only), discovered=[trial.item("found", lane=trial.lane(1))])
    await site.sql("ALTER FUNCTION {schema}.claim_{set} SET lock_timeout TO '60s'")
    holder = await site.connect()
    await holder.execute("BEGIN")
    await holder.execute(site.location.fill("LOCK TABLE {schema}.inbox IN ACCESS EXCLUSIVE MODE"))
    claiming = asyncio.create_task(trial.claim(order=[1]))
    await site.waiting()
    await trial.add("added", lane=trial.lane(1))
    await holder.commit()
    async with asyncio.timeout(PATIENCE):
        batch = await claiming
    assert [(item.key, item.position) for item in batch.items] == [("added", 1), ("found", 2)]
    await trial.check()


async def test_a_lane_is_not_parked_under_an_uncommitted_addition(site: Site) -> None:
    """The last item of a lane is settled while another transaction adds to the lane: the lane stays in the queue."""
    trial = await site.trial()
    await trial.change_lane(concurrency=1)
    await trial.add("first")
    batch = await trial.claim()
    async with site.held_open() as (adder, connection):
        await adder.add("held")
        settling = asyncio.create_task(batch.settle(done(batch.only)))
        await site.waiting()
        await connection.commit()
    await settling
    assert (await trial.lane_status()).ready_at is not None
    assert (await trial.claim()).keys == ["held"]


async def test_claims_that_queue_on_one_lock_are_disjoint(site: Site) -> None:
    """INV-1. All of them began before any of them committed."""
    store = await site.store()
    trial = Trial(store, site.clock)
    await trial.add(*(f"key{n}" for n in range(40)))
    holder = await site.lock(0)
    requests = [ClaimRequest(10, 60 * SECOND, "worker", token, [0], wait_for=0) for token in range(4)]
    claims = [asyncio.create_task(store.claim(request)) for request in requests]
    await site.waiting(4)
    await holder.commit()
    keys = [item.key for reply in await asyncio.gather(*claims) for item in reply.items]
    assert len(keys) == len(set(keys)) >= 10
    status = await trial.status()
    assert (status.claimed, status.ready) == (len(keys), 40 - len(keys))
    await trial.check()
