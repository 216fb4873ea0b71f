"""What only a transaction that is held open shows: who writes the same file waits, and then looks (INV-5)."""

import asyncio

import psycopg
import pytest

from swath.backends.postgres import PostgresStore
from swath.conformance.trial import Trial, done
from swath.core.clock import ManualClock
from swath.core.errors import OutputConflict
from swath.core.store import OutputMove, Settings, Settlement


async def test_settle_waits_for_whoever_writes_the_same_output(database: str) -> None:
    clock = ManualClock()
    store = await PostgresStore.open(database, settings=Settings(partitions=2), clock=clock)
    try:
        trial = Trial(store, clock)
        await trial.add("a", lane=trial.lane(0))
        await trial.add("b", lane=trial.lane(1))
        first, second = await trial.claim(order=[0]), await trial.claim(order=[1])
        async with await psycopg.AsyncConnection.connect(database) as connection:
            await connection.execute("SELECT 1")  # opens the transaction
            written = Settlement(0, 1, [done(first.only)], outputs=[OutputMove("file", 0, 10)])
            await store.settle(first.ref, written, connection=connection)
            waiting = asyncio.create_task(second.settle(done(second.only), outputs=[OutputMove("file", 0, 20)]))
            await asyncio.wait({waiting}, timeout=0.2)
            await connection.commit()
            with pytest.raises(OutputConflict):
                await waiting
        assert await store.outputs() == {"file": 10}
        assert (await trial.state("a"), await trial.state("b")) == ("done", "claimed")
    finally:
        await store.close()
