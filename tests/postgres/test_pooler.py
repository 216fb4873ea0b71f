"""No state is kept in a session: every transaction may run on another connection, as behind a pooler.

Every move goes through a pool that changes the connection with every transaction, and looks at each in the end: no
setting, prepared statement, lock, temporary table or channel may be left behind.
"""

from itertools import pairwise

import pytest

from swath.conformance.trial import Trial, dead, done, release, retry, split
from swath.core.errors import InvalidOutcome, LeaseLost, OutputConflict
from swath.core.store import ClaimRef, OutputMove, Settings
from tests.postgres.lending import Pooler, left_behind
from tests.postgres.site import Site

SIZE = 3


async def test_every_move_through_a_pooler(site: Site) -> None:
    """All that a store can do, errors included, with another connection each time."""
    pooler = await Pooler.of(site.location.dsn, size=SIZE)
    store = await site.store(Settings(2, max_attempts=2), connections=pooler)
    trial = Trial(store, site.clock)
    here, there = trial.lane(0), trial.lane(1)
    await trial.add("done", "dead", "retry", "release", "revisit", lane=here)
    await trial.add("range", lane=here, span=8)
    batch = await trial.claim(order=[0])
    await batch.renew()
    with pytest.raises(LeaseLost):
        await store.renew(ClaimRef(batch.ref.fence, 99), 1_000_000)
    with pytest.raises(InvalidOutcome):
        await batch.settle(done(batch["done"]), done(batch["done"]), number=9)
    with pytest.raises(OutputConflict):
        await batch.settle(done(batch["done"]), number=9, outputs=[OutputMove("file", 5, 7)])
    await batch.settle(
        done(batch["done"]),
        dead(batch["dead"]),
        retry(batch["retry"], after=1),
        release(batch["release"]),
        done(batch["revisit"], revisit=1),
        split(batch["range"], 2, rest="rest"),
        discovered=[trial.item("near", lane=here), trial.item("far", lane=there)],
        outputs=[OutputMove("file", 0, 7)],
    )
    await trial.change_lane(here, min_interval=0, concurrency=9, paused=False, blocked_until=0)
    await store.change_settings(min_interval=0, concurrency=0, paused=True)
    assert (await trial.claim()).keys == []
    await store.change_settings(paused=False)
    (gone,) = (await store.items("dead")).rows
    assert await store.reopen([(gone.partition, gone.position)]) == 1
    site.clock.advance(2)
    lost = await trial.claim(lease=1)
    assert sorted(lost.keys) == ["dead", "far", "near", "release", "rest", "retry", "revisit"]
    site.clock.advance(2)
    assert (await trial.claim()).reply.recovered == 7
    assert (await store.outputs(), (await store.signal()).paused) == ({"file": 7}, False)
    assert len(await store.lanes()) == 2
    assert await trial.state("done") == "done"
    await trial.check()
    assert all(one != other for one, other in pairwise(pooler.lent))


async def test_what_is_left_behind_shows(site: Site) -> None:
    """The measure of the tests above measures."""
    connection = await site.connect()
    clean = await left_behind(connection)
    for statement in (
        "SET lock_timeout = 100",
        "PREPARE one AS SELECT 1",
        "SELECT pg_advisory_lock(1)",
        "CREATE TEMPORARY TABLE t (a integer)",
        "LISTEN swath",
        "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
    ):
        await connection.execute(statement.encode())
        found = await left_behind(connection)
        assert found != clean, statement
        clean = found
