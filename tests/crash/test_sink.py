"""`run(sink=)`: rows and outcomes commit together, on PostgreSQL and on SQLite (INV-5)."""

import sqlite3
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import psycopg
import pytest
import pytest_asyncio

import swath
from swath import Item, OutputMove, StoreUnavailable, UsageError
from swath.core.item import Outcome
from swath.frontier import Frontier
from tests.crash.conftest import TIMEOUT
from tests.crash.ledger import Ledger, ledger_of
from tests.crash.places import Place

pytestmark = pytest.mark.timeout(TIMEOUT)


@pytest_asyncio.fixture
async def frontier(place: Place) -> AsyncIterator[Frontier]:
    async with swath.open(place.url, partitions=place.partitions) as frontier:
        await ledger_of(place.url).create()
        yield frontier


@pytest.fixture
def ledger(place: Place) -> Ledger:
    return ledger_of(place.url)


async def hand_in(item: Item) -> Outcome:
    return item.done(rows=[(item.key,), (f"{item.key}/2",)])


def rows_of(keys: Iterable[str]) -> list[str]:
    return sorted(row for key in keys for row in (key, f"{key}/2"))


async def execute(ledger: Ledger, statement: str) -> None:
    async with ledger.transaction() as connection:
        done = connection.execute(statement)
        if not isinstance(done, sqlite3.Cursor):
            await done


async def test_rows_commit_with_their_items_in_few_transactions(frontier: Frontier, ledger: Ledger) -> None:
    keys = [f"k{n}" for n in range(300)]
    await frontier.add(Item(key, lane=f"lane {number % 20}") for number, key in enumerate(keys))
    sink, calls = ledger.sink(), 0

    async def counting(connection: Any, rows: Sequence[Any]) -> None:
        nonlocal calls
        calls += 1
        if (writing := sink(connection, rows)) is not None:
            await writing

    summary = await frontier.run(hand_in, sink=counting)
    assert sorted(await ledger.keys()) == rows_of(keys)
    assert (summary.done, (await frontier.status()).done) == (300, 300)
    assert calls < 150


async def test_a_refused_row_makes_only_its_own_item_dead(frontier: Frontier, ledger: Ledger) -> None:
    await execute(ledger, "CREATE UNIQUE INDEX ledger_key ON ledger (key)")
    await execute(ledger, "INSERT INTO ledger VALUES ('k7/2')")
    keys = [f"k{n}" for n in range(40)]
    await frontier.add(keys)
    summary = await frontier.run(hand_in, sink=ledger.sink())
    assert (summary.done, summary.died, summary.retried) == (39, 1, 0)
    (dead,) = [item async for item in frontier.dead()]
    assert dead.key == "k7"
    assert dead.reason.startswith("the database refused a row: ")
    assert "unique" in dead.reason.lower()
    assert sorted(await ledger.keys()) == sorted([*rows_of(set(keys) - {"k7"}), "k7/2"])


async def test_a_sink_that_fails_ends_the_run_and_gives_its_items_back(frontier: Frontier, ledger: Ledger) -> None:
    await execute(ledger, "DROP TABLE ledger")
    await frontier.add(["a", "b", "without rows"])

    async def handler(item: Item) -> Outcome:
        return item.done() if item.key == "without rows" else item.done(rows=[(item.key,)])

    with pytest.raises((psycopg.errors.UndefinedTable, sqlite3.OperationalError), match="ledger"):
        await frontier.run(handler, sink=ledger.sink())
    status = await frontier.status()
    assert (status.ready, status.done, status.dead) == (2, 1, 0)


class Lines:
    """An output that counts what it writes."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.committed = 0

    def size(self, entry: str) -> int:
        return len(entry)

    def write(self, settlements: Sequence[Sequence[str]]) -> Sequence[Sequence[OutputMove]]:
        moves = []
        for entries in settlements:
            before = len(self.written)
            self.written += entries
            moves.append([OutputMove("lines", before, len(self.written))] if entries else [])
        return moves

    def keep(self) -> None:
        self.committed = len(self.written)

    def restore(self, committed: Mapping[str, int]) -> None:
        del self.written[committed.get("lines", 0) :]


async def test_a_sink_works_beside_an_output(frontier: Frontier, ledger: Ledger) -> None:
    await execute(ledger, "CREATE UNIQUE INDEX ledger_key ON ledger (key)")
    await execute(ledger, "INSERT INTO ledger VALUES ('k3')")
    keys = [f"k{n}" for n in range(30)]
    await frontier.add(keys)
    output = Lines()

    async def handler(item: Item) -> Outcome:
        return item.done(rows=[(item.key,)], output=item.key)

    summary = await frontier.run(handler, sink=ledger.sink(), output=output)
    assert (summary.done, summary.died) == (29, 1)
    assert sorted(await ledger.keys()) == sorted(keys)
    assert sorted(output.written) == sorted(set(keys) - {"k3"})
    assert await frontier.outputs() == {"lines": 29}


class LosesReplies:
    """A store whose transactions raise StoreUnavailable after, or instead of, their commit."""

    def __init__(self, store: Any, *, commits: bool) -> None:
        self._store = store
        self._commits = commits
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Any]:
        lose, self.lost = self.lost < 2, self.lost + 1
        async with self._store.transaction() as connection:
            yield connection
            if lose and not self._commits:
                raise StoreUnavailable("the connection broke before the commit")
        if lose:
            raise StoreUnavailable("the connection broke before the reply")


@pytest.mark.parametrize("commits", [True, False])
async def test_a_commit_without_a_reply_writes_rows_once(frontier: Frontier, ledger: Ledger, commits: bool) -> None:
    frontier._session.store = store = LosesReplies(frontier._store, commits=commits)
    keys = [f"k{n}" for n in range(30)]
    await frontier.add(keys)
    summary = await frontier.run(hand_in, sink=ledger.sink())
    assert store.lost >= 2
    assert sorted(await ledger.keys()) == rows_of(keys)
    assert (summary.done, summary.lost, (await frontier.status()).done) == (30, 0, 30)


async def test_rows_without_a_sink_are_refused(frontier: Frontier) -> None:
    await frontier.add("a")
    summary = await frontier.run(hand_in, until="idle")
    assert summary.retried == 1
    assert "give `run()` a `sink=`" in (await frontier.explain("a")).data["reason"]


async def test_a_sink_needs_a_database_and_excludes_a_transaction(ledger: Ledger, frontier: Frontier) -> None:
    async with swath.open("memory:") as in_memory:
        with pytest.raises(UsageError, match="memory"):
            await in_memory.run(hand_in, sink=ledger.sink())
    with pytest.raises(UsageError, match="sink= and transaction="):
        await frontier.run(hand_in, sink=ledger.sink(), transaction=ledger.transaction)
