"""Transactions that a store opens on its own database: the caller's rows and a settlement commit together (INV-5)."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from swath.conformance.trial import LANE, Batch, Conformance, Start, dead, done
from swath.core.errors import InvalidOutcome, LeaseLost, UsageError
from swath.core.store import Move, MoveKind


class TransactionConformance(Conformance):
    """For stores with a database; they pass this and StoreConformance."""

    async def execute(self, connection: Any, statement: str) -> Sequence[Any]:
        """Run a statement on a connection that `transaction()` returned, and return its rows. Required."""
        raise NotImplementedError(
            f"{type(self).__name__} must implement `async def execute(self, connection, statement)`"
        )

    async def read_rows(self, connection: Any, table: str) -> list[str]:
        return sorted(row[0] for row in await self.execute(connection, f"SELECT name FROM {table}"))

    async def write_and_settle(self, batch: Batch, table: str, move: Move, *, fails: Exception | None = None) -> None:
        """Insert a row, settle, and raise `fails` before the transaction ends."""
        async with batch.store.transaction() as connection:
            await self.execute(connection, f"INSERT INTO {table} VALUES ('row')")
            await batch.settle(move, counters={"rows": 1}, connection=connection)
            if fails is not None:
                raise fails

    async def test_transaction_commits_rows_with_the_settlement(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b")
        batch = await trial.claim()
        async with trial.store.transaction() as connection:
            await self.execute(connection, "CREATE TABLE together (name text PRIMARY KEY)")
            await self.execute(connection, "INSERT INTO together VALUES ('row')")
            await batch.settle(
                done(batch["a"]),
                dead(batch["b"]),
                counters={"rows": 1},
                lane_counters={LANE: {"pages": 2}},
                connection=connection,
            )
        assert (await trial.state("a"), await trial.state("b")) == ("done", "dead")
        assert await trial.store.counters() == {"rows": 1}
        assert (await trial.lane_status()).counters == {"pages": 2}
        async with trial.store.transaction() as connection:
            assert await self.read_rows(connection, "together") == ["row"]

    async def test_transaction_rolls_back_when_its_block_raises(self, start: Start) -> None:
        trial = await start()
        await trial.add("a")
        batch = await trial.claim()
        async with trial.store.transaction() as connection:
            await self.execute(connection, "CREATE TABLE undone (name text PRIMARY KEY)")
        before = await trial.take_snapshot("a")
        with pytest.raises(KeyError, match="the sink failed"):
            await self.write_and_settle(batch, "undone", done(batch.only), fails=KeyError("the sink failed"))
        assert await trial.take_snapshot("a") == before
        assert await trial.store.counters() == {}
        async with trial.store.transaction() as connection:
            assert await self.read_rows(connection, "undone") == []
        await batch.finish()

    async def test_transaction_rolls_back_when_the_settlement_is_refused(self, start: Start) -> None:
        """INV-2, INV-5: the rows of a worker that lost its lease are not committed."""
        trial = await start()
        await trial.add("a")
        lost = await trial.claim(lease=30)
        async with trial.store.transaction() as connection:
            await self.execute(connection, "CREATE TABLE refused (name text PRIMARY KEY)")
        trial.clock.advance(31)
        batch = await trial.claim()
        with pytest.raises(LeaseLost):
            await self.write_and_settle(lost, "refused", done(lost.only))
        with pytest.raises(InvalidOutcome):
            await self.write_and_settle(batch, "refused", Move(99, MoveKind.DONE))
        async with trial.store.transaction() as connection:
            assert await self.read_rows(connection, "refused") == []
        await batch.finish()

    async def test_explain_refusal_names_what_is_wrong_with_a_row(self, start: Start) -> None:
        trial = await start()
        async with trial.store.transaction() as connection:
            await self.execute(connection, "CREATE TABLE unique_rows (name text PRIMARY KEY)")
            await self.execute(connection, "INSERT INTO unique_rows VALUES ('row')")
        with pytest.raises(Exception, match="unique_rows") as refused:
            async with trial.store.transaction() as connection:
                await self.execute(connection, "INSERT INTO unique_rows VALUES ('row')")
        message = trial.store.explain_refusal(refused.value)
        assert message is not None
        assert "unique_rows" in message
        with pytest.raises(Exception, match="no_such_table") as mistaken:
            async with trial.store.transaction() as connection:
                await self.execute(connection, "INSERT INTO no_such_table VALUES ('row')")
        assert trial.store.explain_refusal(mistaken.value) is None
        assert trial.store.explain_refusal(ValueError("row")) is None

    async def test_transactions_and_adds_at_once_all_commit(self, start: Start) -> None:
        trial = await start()
        async with trial.store.transaction() as connection:
            await self.execute(connection, "CREATE TABLE waiting (name text PRIMARY KEY)")

        async def insert(name: str) -> None:
            async with trial.store.transaction() as connection:
                await self.execute(connection, f"INSERT INTO waiting VALUES ('{name}')")
                await asyncio.sleep(0)

        await asyncio.gather(*(insert(f"row{n}") for n in range(8)), *(trial.add(f"key{n}") for n in range(8)))
        async with trial.store.transaction() as connection:
            assert await self.read_rows(connection, "waiting") == sorted(f"row{n}" for n in range(8))
        assert await trial.total("ready") == 8

    async def test_transaction_of_a_closed_store_is_refused(self, start: Start) -> None:
        trial = await start()
        closed = await self.make_store(trial.store.settings, trial.clock)
        await closed.close()
        with pytest.raises(UsageError):
            async with closed.transaction():
                pass
