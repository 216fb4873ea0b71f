"""INV-4, INV-7: a database that was restored to an earlier state. Known keys are forgotten; no zombie meets a reused
number."""

import asyncio
import logging

import pytest

from swath.conformance.trial import done
from swath.core.errors import LeaseLost
from swath.core.store import ClaimRef
from swath.frontier import Frontier
from tests.postgres.lending import HeldBack
from tests.postgres.site import Site
from tests.recorder import PATIENCE

TABLES = "partition_state, lane, lane_state, item, delayed, claimed, claim, inbox, seen, moved, done, dead, output"


async def back_up(site: Site) -> None:
    await site.sql("CREATE SCHEMA IF NOT EXISTS backup")
    for table in TABLES.split(", "):
        await site.sql(f"DROP TABLE IF EXISTS backup.{table}")
        await site.sql(f"CREATE TABLE backup.{table} AS TABLE {{schema}}.{table}")


async def restore(site: Site) -> None:
    for table in TABLES.split(", "):
        overriding = "OVERRIDING SYSTEM VALUE" if table == "inbox" else ""
        await site.sql(f"TRUNCATE {{schema}}.{table}")
        await site.sql(f"INSERT INTO {{schema}}.{table} {overriding} TABLE backup.{table}")
    await site.sql("SELECT setval('{schema}.fence', (SELECT max(fence) + 1 FROM {schema}.claim), false)")


async def test_the_memory_of_recent_keys_is_emptied(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """INV-4. A key that was confirmed and is gone again can be added again."""
    frontier = Frontier(await site.store())
    await frontier.add(["before", "early"])
    claim = await frontier.claim(1)
    assert claim is not None
    await back_up(site)
    generation = frontier._store.generation
    for n in range(3):
        await frontier.add([f"after{n}"])
    assert await frontier.claim(1) is not None
    assert frontier._store.generation == generation
    await restore(site)
    with caplog.at_level(logging.WARNING, logger="swath"):
        await frontier.claim(1)
    assert frontier._store.generation > generation
    assert "earlier state" in caplog.text
    assert await frontier.add(["after0", "before"]) == 1


async def test_answers_out_of_order_are_no_restore(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Two claims at once: the later one is answered first. A restore to where the earlier one was is still noticed."""
    lending = HeldBack(site.location.dsn)
    frontier = Frontier(await site.store(connections=lending))
    await frontier.add([f"page{n}" for n in range(20)])
    assert await frontier.claim(1) is not None
    generation = frontier._store.generation
    lending.hold_next()
    earlier = asyncio.create_task(frontier.claim(1))
    async with asyncio.timeout(PATIENCE):
        await lending.answered.wait()
    await back_up(site)
    for _ in range(5):
        assert await frontier.claim(1) is not None
    lending.let_go()
    assert await earlier is not None
    assert await frontier.claim(1) is not None
    assert (frontier._store.generation, caplog.text) == (generation, "")
    await restore(site)
    assert await frontier.claim(1) is not None
    assert (frontier._store.generation, caplog.text.count("earlier state")) == (generation + 1, 1)
    assert await frontier.claim(1) is not None
    assert frontier._store.generation == generation + 1, "noticed once"


async def test_what_is_answered_late_does_not_hide_a_restore(site: Site) -> None:
    """What is known of a partition is the highest version of all answers, not that of the last."""
    lending = HeldBack(site.location.dsn)
    frontier = Frontier(await site.store(connections=lending))
    await frontier.add([f"page{n}" for n in range(20)])
    lending.hold_next()
    earlier = asyncio.create_task(frontier.claim(1))
    async with asyncio.timeout(PATIENCE):
        await lending.answered.wait()
    await back_up(site)
    for _ in range(5):
        assert await frontier.claim(1) is not None
    lending.let_go()
    assert await earlier is not None
    generation = frontier._store.generation
    await restore(site)
    assert await frontier.claim(1) is not None
    assert frontier._store.generation == generation + 1


async def test_the_memory_of_recent_keys_is_emptied_with_a_connection(site: Site) -> None:
    """The next connection may reach a standby that never received what was confirmed before."""
    frontier = Frontier(await site.store())
    await frontier.add("kept")
    await back_up(site)
    await frontier.add("lost")
    await restore(site)
    assert await frontier.add(["kept", "lost"]) == 0, "remembered, and not asked for"
    await site.sql(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'swath' AND pid <> pg_backend_pid()"
    )
    assert (await frontier.status()).ready == 1, "asked on a connection made anew"
    assert await frontier.add(["kept", "lost"]) == 1
    assert (await frontier.status()).ready == 2


async def test_a_reused_fence_is_not_enough(site: Site) -> None:
    """INV-2. The number is the same, the token is not: the zombie changes nothing."""
    trial = await site.trial()
    await trial.add("kept")
    first = await trial.claim()
    await first.finish()
    await trial.add("work")
    await back_up(site)
    zombie = await trial.claim()
    assert zombie.keys == ["work"]
    await restore(site)
    holder = await trial.claim()
    assert (holder.keys, holder.ref.fence) == (["work"], zombie.ref.fence)
    assert holder.ref.token != zombie.ref.token
    for attempt in (zombie.settle(done(zombie.only), number=1), zombie.renew()):
        with pytest.raises(LeaseLost):
            await attempt
    assert await trial.state("work") == "claimed"
    await holder.finish()
    await trial.check()


async def test_an_unknown_claim_is_lost(site: Site) -> None:
    """Its row went with the restore: there is nothing to guess."""
    trial = await site.trial()
    await trial.add("work")
    await trial.add("more", lane="other")
    first = await trial.claim(1)
    assert first.items
    await back_up(site)
    zombie = await trial.claim(1)
    await restore(site)
    with pytest.raises(LeaseLost, match="no such claim"):
        await zombie.finish()
    with pytest.raises(LeaseLost, match="no such claim"):
        await trial.store.renew(ClaimRef(zombie.ref.fence, zombie.ref.token), 1_000_000)
    await first.finish()
    await trial.check()
