"""Items that were discovered for another partition are inserted there, no matter when their transaction commits."""

import asyncio
import os
import random
from collections.abc import Sequence

import pytest

from swath.backends.postgres import store as store_module
from swath.backends.postgres.connections import AsyncConnection
from swath.conformance.trial import Batch, Trial, done
from swath.core.item import Item
from swath.core.store import EncodedItem, Settlement
from swath.frontier import Frontier
from tests.postgres.site import Site

SEED = int(os.environ.get("SWATH_SEED", "10"))


async def settle_in(
    connection: AsyncConnection, batch: Batch, discovered: Sequence[EncodedItem], *, number: int = 1
) -> None:
    """Settle a whole batch in a transaction that stays open."""
    await connection.execute("BEGIN")
    moves = [done(item) for item in batch.items]
    settlement = Settlement(batch.only.partition, number, moves, discovered)
    await batch.store.settle(batch.ref, settlement, connection=connection)


async def source(trial: Trial, partition: int) -> Batch:
    """A claim that discovers, from a partition of its own."""
    await trial.add(f"source{partition}", lane=trial.lane(partition))
    return await trial.claim(order=[partition])


async def test_what_commits_late_is_drained_late(site: Site) -> None:
    """The earlier transaction commits after the later one was drained: nothing is lost, and status tells the truth."""
    trial = await site.trial(partitions=3)
    target = trial.lane(2)
    early, late = [await site.connect() for _ in range(2)]
    first, second = await source(trial, 0), await source(trial, 1)
    await settle_in(early, first, [trial.item("early", lane=target)])
    await settle_in(late, second, [trial.item("late", lane=target)])
    assert await trial.total("inbox") == 0, "nothing has committed"
    await late.commit()
    assert (await trial.status(2)).inbox == 1
    assert await trial.state("late") == "inbox"

    batch = await trial.claim(order=[2])
    assert batch.keys == ["late"]
    assert (await batch.finish()).checkpoint == 1
    assert await trial.find("early") == []
    assert (await trial.claim(order=[2])).keys == []

    await early.commit()
    assert (await trial.status(2)).inbox == 1
    assert await trial.state("early") == "inbox"
    batch = await trial.claim(order=[2])
    assert batch.keys == ["early"]
    assert (await batch.finish()).checkpoint == 2
    assert await trial.total("inbox") == 0
    await trial.check()


async def test_a_rolled_back_discovery_was_never_there(site: Site) -> None:
    trial = await site.trial(partitions=2)
    connection = await site.connect()
    batch = await source(trial, 0)
    await settle_in(connection, batch, [trial.item("found", lane=trial.lane(1))])
    await connection.rollback()
    assert await trial.find("found") == []
    assert await trial.state("source0") == "claimed"
    await batch.settle(done(batch.only), number=1, discovered=[trial.item("found", lane=trial.lane(1))])
    assert (await trial.claim(order=[1])).keys == ["found"]
    await trial.check()


@pytest.mark.parametrize("seed", range(SEED, SEED + 2))
async def test_any_order_of_commits(site: Site, seed: int) -> None:
    """Appenders open, commit and roll back in a random order, with drains in between: all arrive, each once."""
    rng = random.Random(seed)
    appenders = 8
    trial = await site.trial(partitions=appenders + 1)
    target = trial.lane(appenders)
    connections = [await site.connect() for _ in range(appenders)]
    expected, arrived = set[str](), list[str]()

    async def drain() -> None:
        for _ in range(2):
            batch = await trial.claim(1_000, order=[appenders])
            arrived.extend(batch.keys)
            if batch.items:
                await batch.finish()

    for turn in range(3):
        open_ones = []
        for partition in rng.sample(range(appenders), appenders):
            connection = connections[partition]
            keys = [f"{turn}.{partition}.{n}" for n in range(rng.randrange(1, 4))]
            await trial.add(f"source{turn}.{partition}", lane=trial.lane(partition))
            batch = await trial.claim(order=[partition])
            await settle_in(connection, batch, [trial.item(key, lane=target) for key in keys])
            open_ones.append((connection, keys))
            if rng.random() < 0.4:
                await drain()
        rng.shuffle(open_ones)
        for connection, keys in open_ones:
            if rng.random() < 0.8:
                await connection.commit()
                expected.update(keys)
            else:
                await connection.rollback()
            if rng.random() < 0.5:
                await drain()
    assert (await trial.status(appenders)).inbox == len(expected - set(arrived)), f"seed {seed}"
    await drain()
    assert sorted(arrived) == sorted(expected), f"seed {seed}"
    await trial.check()


async def test_a_known_key_is_taken_in_once(site: Site) -> None:
    """INV-7. Two transactions discover the same key for a third partition; neither sees the other."""
    trial = await site.trial(partitions=3)
    target = trial.lane(2)
    connections = [await site.connect() for _ in range(2)]
    for partition, connection in enumerate(connections):
        await settle_in(connection, await source(trial, partition), [trial.item("same", lane=target)])
    for connection in connections:
        await connection.commit()
    assert (await trial.status(2)).inbox == 2
    batch = await trial.claim(order=[2])
    assert batch.keys == ["same"]
    await batch.finish()
    assert await trial.total("inbox") == 0
    await trial.check()


@pytest.mark.parametrize("before", [["before"], []])
async def test_restored_into_a_younger_cluster(site: Site, before: list[str]) -> None:
    """Transaction numbers start again after a dump and restore: old marks and old rows lie far ahead of them."""
    trial = await site.trial(partitions=2)
    batch = await source(trial, 0)
    await batch.settle(done(batch.only), discovered=[trial.item(key, lane=trial.lane(1)) for key in before])
    await site.sql("UPDATE {schema}.inbox SET xid = '888888888888'")
    await site.sql("UPDATE {schema}.partition_state SET inbox_from = '777777777777', inbox_open = '{{777777777770}}'")
    await trial.add("another", lane=trial.lane(0))
    batch = await trial.claim(order=[0])
    await batch.settle(done(batch.only), discovered=[trial.item("after", lane=trial.lane(1))])
    assert (await trial.status(1)).inbox == len(before) + 1
    taken = {key for _ in range(2) for key in (await trial.claim(order=[1])).keys}
    assert taken == {*before, "after"}
    assert await trial.total("inbox") == 0
    await trial.check()


async def marked_ahead(site: Site, partition: int) -> int:
    """Leave a partition's mark as a restore into a younger cluster does: a little ahead of its transaction numbers."""
    ((ahead,),) = await site.sql("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 300")
    await site.sql(
        "UPDATE {schema}.partition_state SET inbox_from = %s::text::xid8 WHERE partition = %s", str(ahead), partition
    )
    return int(ahead)


async def passed(site: Site, number: int) -> None:
    """Use up transaction numbers, as others in the cluster do."""
    connection = await site.connect()
    while True:
        row = await (await connection.execute("SELECT pg_current_xact_id()::text::bigint")).fetchone()
        assert row is not None
        if row[0] > number:
            return


async def test_transaction_numbers_pass_a_restored_mark(site: Site) -> None:
    """INV-4. What was discovered below the mark is found after the cluster has passed it, with no look in between."""
    trial = await site.trial(partitions=2)
    ahead = await marked_ahead(site, 1)
    batch = await source(trial, 0)
    await batch.settle(done(batch.only), discovered=[trial.item("found", lane=trial.lane(1))])
    await passed(site, ahead)
    assert (await trial.status(1)).inbox == 1
    assert (await trial.claim(order=[1])).keys == ["found"]
    assert await trial.total("inbox") == 0
    await trial.check()


@pytest.mark.parametrize("drained", [True, False])
async def test_transaction_numbers_pass_a_restored_mark_while_one_is_open(site: Site, drained: bool) -> None:
    """The transaction discovers below the mark and commits above it, whether or not somebody drains in between."""
    trial = await site.trial(partitions=3)
    ahead = await marked_ahead(site, 1)
    connection = await site.connect()
    await settle_in(connection, await source(trial, 0), [trial.item("found", lane=trial.lane(1))])
    await passed(site, ahead)
    if drained:
        batch = await source(trial, 2)
        await batch.settle(done(batch.only), discovered=[trial.item("other", lane=trial.lane(1))])
        assert (await trial.claim(order=[1])).keys == ["other"]
    await connection.commit()
    assert (await trial.status(1)).inbox == 1
    assert (await trial.claim(order=[1])).keys == ["found"]
    await trial.check()


async def test_transaction_numbers_pass_a_restored_mark_before_a_discovery(site: Site) -> None:
    """The transaction began below the mark and discovers above it."""
    trial = await site.trial(partitions=2)
    ahead = await marked_ahead(site, 1)
    batch = await source(trial, 0)
    connection = await site.connect()
    await connection.execute("BEGIN")
    await connection.execute("SELECT pg_current_xact_id()")
    await passed(site, ahead)
    settlement = Settlement(0, 1, [done(batch.only)], [trial.item("found", lane=trial.lane(1))])
    await batch.store.settle(batch.ref, settlement, connection=connection)
    await connection.commit()
    assert (await trial.claim(order=[1])).keys == ["found"]
    await trial.check()


async def test_an_open_transaction_is_no_restore(site: Site) -> None:
    """What commits late keeps its own number: the mark's list of open transactions has it."""
    trial = await site.trial(partitions=2)
    batch = await source(trial, 0)
    connection = await site.connect()
    await connection.execute("BEGIN")
    row = await (await connection.execute("SELECT pg_current_xact_id()::text::bigint")).fetchone()
    await trial.add("other", lane=trial.lane(1))
    assert (await trial.claim(order=[1])).keys == ["other"]
    settlement = Settlement(0, 1, [done(batch.only)], [trial.item("found", lane=trial.lane(1))])
    await batch.store.settle(batch.ref, settlement, connection=connection)
    await connection.commit()
    assert await site.sql("SELECT xid::text::bigint FROM {schema}.inbox") == [row]
    assert (await trial.claim(order=[1])).keys == ["found"]
    await trial.check()


async def test_a_claim_drains_a_bounded_number(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much was discovered, a claim takes in a few times its bound at most; later ones get the rest."""
    rows, size, bound, most = 50, 20, 50, 5
    monkeypatch.setattr(store_module, "INBOX_DRAIN", bound)
    trial = await site.trial(partitions=2)
    target = trial.lane(1)
    await trial.add(*(f"source{row}" for row in range(rows)), lane=trial.lane(0))
    batch = await trial.claim(order=[0])
    for row, item in enumerate(batch.items):
        found = [trial.item(f"{row}.{n}", lane=target) for n in range(size)]
        await batch.settle(done(item), discovered=found)
    inbox = rows * size
    assert (await trial.status(1)).inbox == inbox
    claimed, claims = list[str](), 0
    while inbox:
        claimed += (await trial.claim(1, order=[1])).keys
        left = (await trial.status(1)).inbox
        assert inbox - most * (bound + size) <= left < inbox
        inbox, claims = left, claims + 1
    assert claims > 1
    assert claimed, "what is ready waits for no more than the inbox"
    status = await trial.status(1)
    assert status.ready + status.claimed == rows * size
    await trial.check()


async def test_more_settlements_discover_than_one_look_reads(site: Site) -> None:
    """INV-4. However few each of them has found: the next look begins where this one ended."""
    rows = 1_001
    trial = await site.trial(partitions=2)
    await trial.add(*(f"source{row}" for row in range(rows)), lane=trial.lane(0))
    batch = await trial.claim(rows, order=[0])
    for row, item in enumerate(batch.items):
        await batch.settle(done(item), discovered=[trial.item(f"found{row}", lane=trial.lane(1))])
    assert len((await trial.claim(rows, order=[1])).keys) == rows
    await trial.check()


async def test_a_claim_drains_a_bounded_number_over_all_partitions(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the lock of every partition that it drains. Where an inbox is above the mark nothing is claimed, so it
    is not the end of what was wanted that ends this."""
    partitions, rows, most = 8, 6, 5
    monkeypatch.setattr(store_module, "INBOX_DRAIN", 1)
    monkeypatch.setattr(store_module, "PARTITIONS_PER_CLAIM", 1)
    trial = await site.trial(partitions=partitions)
    others = range(1, partitions)
    await trial.add(*(f"source{row}" for row in range(rows)), lane=trial.lane(0))
    batch = await trial.claim(order=[0])
    for row, item in enumerate(batch.items):
        found = [trial.item(f"{row}.{partition}", lane=trial.lane(partition)) for partition in others]
        await batch.settle(done(item), discovered=found)
    inbox = rows * len(others)
    assert await trial.total("inbox") == inbox
    order = list(others)
    looked = await trial.claim(order=order)
    assert (looked.keys, await trial.total("inbox")) == ([], inbox - most)
    assert looked.reply.next_ready_at is not None
    assert looked.reply.next_ready_at <= looked.reply.now, "there is more: look again at once"
    while left := await trial.total("inbox"):
        order.append(order.pop(0))
        await trial.claim(order=order)
        assert left - 2 * most < await trial.total("inbox") <= left
    assert await trial.total("ready") + await trial.total("claimed") == inbox
    await trial.check()


async def test_a_claim_takes_nothing_before_the_inbox_is_drained(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the high-water mark a claim only drains, so that the inbox cannot outgrow those who fill it. Other
    partitions are none of its business."""
    monkeypatch.setattr(store_module, "INBOX_DRAIN", 1)
    trial = await site.trial(partitions=2)
    target = trial.lane(1)
    await trial.add("ready", lane=target)
    await trial.add(*(f"source{n}" for n in range(12)), lane=trial.lane(0))
    batch = await trial.claim(order=[0])
    for n, item in enumerate(batch.items):
        await batch.settle(done(item), discovered=[trial.item(f"found{n}", lane=target)])
    await trial.add("elsewhere", lane=trial.lane(0))
    assert ((await trial.status(1)).inbox, (await trial.status(1)).ready) == (12, 1)

    flooded = await trial.claim(order=[1, 0])
    assert flooded.keys == ["elsewhere"]
    assert ((await trial.status(1)).inbox, (await trial.status(1)).ready) == (7, 6)
    flooded = await trial.claim(order=[1, 0])
    assert flooded.keys == []
    assert flooded.reply.next_ready_at is not None
    assert flooded.reply.next_ready_at <= flooded.reply.now, "there is no need to wait before the next claim"
    assert ((await trial.status(1)).inbox, (await trial.status(1)).ready) == (2, 11)
    drained = await trial.claim(order=[1, 0])
    assert drained.keys == ["ready", *(f"found{n}" for n in range(12))]
    assert ((await trial.status(1)).inbox, (await trial.status(1)).claimed) == (0, 13)
    await trial.check()


async def test_what_is_left_in_a_full_inbox_is_claimed_at_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came first in it cannot be started, and is as much as one claim takes in."""
    monkeypatch.setattr(store_module, "INBOX_DRAIN", 1)
    trial = await site.trial(partitions=2)
    paused, free = trial.lane(1), trial.lane(1, 1)
    await trial.add(*(f"source{n}" for n in range(12)), lane=trial.lane(0))
    await trial.change_lane(paused, paused=True)
    batch = await trial.claim(order=[0])
    for n, item in enumerate(batch.items):
        await batch.settle(done(item), discovered=[trial.item(f"found{n}", lane=paused if n < 11 else free)])
    handled: list[str] = []

    async def handler(item: Item) -> None:
        handled.append(item.key)

    await Frontier(trial.store).run(handler, until="idle", handle_signals=False)
    assert handled == ["found11"]


async def test_explain_knows_what_is_in_an_inbox(site: Site) -> None:
    trial = await site.trial(partitions=2)
    batch = await source(trial, 0)
    await batch.settle(done(batch.only), discovered=[trial.item("found", lane=trial.lane(1))])
    explanation = await Frontier(trial.store).explain("found")
    assert explanation.state == "inbox"
    assert str(explanation) == "found was discovered and will be taken in by the next claim on its partition."


async def test_what_commits_late_is_drained_in_parts(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A late transaction with more rows than a claim takes in: the rest is not forgotten."""
    monkeypatch.setattr(store_module, "INBOX_DRAIN", 1)
    trial = await site.trial(partitions=3)
    target = trial.lane(2)
    await trial.add(*(f"source{n}" for n in range(12)), lane=trial.lane(0))
    late, connection = await trial.claim(order=[0]), await site.connect()
    await connection.execute("BEGIN")
    for number, item in enumerate(late.items):
        found = [trial.item(f"late{number}", lane=target)]
        settlement = Settlement(0, number + 1, [done(item)], found)
        await trial.store.settle(late.ref, settlement, connection=connection)
    other = await source(trial, 1)
    await other.settle(done(other.only), discovered=[trial.item("early", lane=target)])
    assert (await trial.claim(order=[2])).keys == ["early"]
    await connection.commit()
    assert (await trial.status(2)).inbox == 12
    await trial.claim_each(*(f"late{n}" for n in range(12)))
    assert await trial.total("inbox") == 0
    await trial.check()


async def test_discoveries_for_each_other_do_not_deadlock(site: Site) -> None:
    """Settlements that discover crosswise hold one lock each: all of them end."""
    trial = await site.trial(partitions=4)
    batches = [await source(trial, partition) for partition in range(4)]
    await asyncio.gather(
        *(
            batch.settle(
                done(batch.only),
                discovered=[trial.item(f"{n}>{other}", lane=trial.lane(other)) for other in range(4)],
            )
            for n, batch in enumerate(batches)
        )
    )
    await trial.claim_each(*(f"{n}>{other}" for n in range(4) for other in range(4)))
    await trial.check()
