"""`run(transaction=)`: what a handler writes and its outcome are one (INV-5), whatever happens around them."""

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio

import swath
from swath import Item
from swath.core.clock import lease_clock
from swath.core.errors import StoreUnavailable, UsageError, WrongTransaction
from swath.core.item import Outcome
from swath.core.store import MoveKind
from swath.frontier import Frontier
from swath.runner.execution import Execution, Transactions, execute
from swath.runner.store_retry import StoreRetry
from tests.crash.conftest import TIMEOUT
from tests.crash.crew import ROOT
from tests.crash.ledger import LEASE, Ledger, PostgresLedger, ledger_of
from tests.crash.places import Place

KILLS = 6

pytestmark = pytest.mark.timeout(TIMEOUT)


@pytest_asyncio.fixture
async def frontier(place: Place) -> AsyncIterator[Frontier]:
    async with swath.open(place.url, partitions=place.partitions, max_attempts=20) as frontier:
        await ledger_of(place.url).create()
        yield frontier


@pytest.fixture
def ledger(place: Place) -> Ledger:
    return ledger_of(place.url)


@contextmanager
def workers(url: str, way: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two processes on the frontier; on leaving, what still runs is killed."""
    path = os.pathsep.join([str(Path(swath.__file__).parents[1]), str(ROOT)])
    with ExitStack() as stack:
        yield [
            stack.enter_context(_killed_in_the_end([sys.executable, "-m", "tests.crash.ledger", url, way], path))
            for _ in range(2)
        ]


@contextmanager
def _killed_in_the_end(command: list[str], path: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def begun(worker: subprocess.Popen[bytes]) -> None:
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"begun\n"


@pytest.mark.parametrize("way", ["transaction", "sink"])
async def test_rows_are_written_exactly_once_by_workers_that_are_killed(
    way: str, frontier: Frontier, ledger: Ledger, place: Place, seed: int
) -> None:
    """Some are killed between the writes and the commit, or just after the commit."""
    random_ = random.Random(seed)
    keys: list[str] = []
    kills = 0
    while kills < KILLS:
        more = [f"k/{len(keys) + number}" for number in range(300)]  # two that were fast may have covered all there was
        await frontier.add([Item(key, lane=f"lane {number % 7}") for number, key in enumerate(more)])
        keys += more
        with workers(place.url, way) as killed:
            await asyncio.gather(*(asyncio.to_thread(begun, worker) for worker in killed))
            wanted = len(await ledger.keys()) + random_.randrange(1, 60)
            for _ in range(200):
                if len(await ledger.keys()) >= wanted:
                    break
                await asyncio.sleep(0.01)
            kills += sum(worker.poll() is None for worker in killed)
    with workers(place.url, way) as last:
        codes = [await asyncio.to_thread(worker.wait, 60) for worker in last]
    assert codes == [0, 0]
    assert Counter(await ledger.keys()) == Counter(keys)
    assert (await frontier.status()).done == len(keys)


async def test_what_raises_has_written_nothing(frontier: Frontier, ledger: Ledger) -> None:
    await frontier.add(["good", "bad", "cancels", "odd"])

    async def handler(item: Item, connection: Any) -> Outcome | None:
        await ledger.write(connection, item.key)
        match item.key:
            case "bad":
                raise RuntimeError("no")
            case "cancels":
                raise asyncio.CancelledError
            case "odd":
                return "nonsense"  # type: ignore[return-value]
            case _:
                return None

    summary = await frontier.run(handler, transaction=ledger.transaction, until="idle")
    assert await ledger.keys() == ["good"]
    assert (summary.done, summary.retried) == (1, 3)


async def test_a_rollback_that_the_transaction_keeps_to_itself_is_a_retry(database: str) -> None:
    """psycopg.Rollback ends the block of a transaction, and no error comes out of it."""
    ledger = PostgresLedger(database)
    await ledger.create()

    @asynccontextmanager
    async def transaction() -> AsyncIterator[Any]:
        async with ledger.transaction() as connection, connection.transaction():
            yield connection

    async def handler(item: Item, connection: Any) -> None:
        await ledger.write(connection, item.key)
        raise psycopg.Rollback

    async with swath.open(database) as frontier:
        await frontier.add("a")
        summary = await frontier.run(handler, transaction=transaction, until="idle")
        found = await frontier.explain("a")
    assert (summary.done, summary.retried, await ledger.keys()) == (0, 1, [])
    assert found.data["reason"].startswith("WrongTransaction: the transaction suppressed the handler")


async def test_every_outcome_commits_with_what_was_written(frontier: Frontier, ledger: Ledger) -> None:
    await frontier.add(["done", "dead", "retry"])

    async def handler(item: Item, connection: Any) -> Outcome | None:
        await ledger.write(connection, item.key)
        match item.key:
            case "dead":
                return item.dead(reason="no use")
            case "retry":
                return item.retry(after=60)
            case "done":
                return item.done(result="fine", discovered=["found"])
            case _:
                return None

    summary = await frontier.run(handler, transaction=ledger.transaction, until="idle")
    assert sorted(await ledger.keys()) == ["dead", "done", "found", "retry"]
    assert (summary.done, summary.died, summary.retried, summary.discovered) == (2, 1, 1, 1)
    assert (await frontier.explain("done")).data["result"] == "fine"


@pytest.mark.parametrize("committed", [True, False])
async def test_a_commit_whose_end_is_not_seen_is_looked_up(frontier: Frontier, ledger: Ledger, committed: bool) -> None:
    """Rule 5. The item stands as it was committed, or is done again; never both."""
    await frontier.add(["a", "b", "c"])
    failures = 0

    @asynccontextmanager
    async def transaction() -> AsyncIterator[Any]:
        nonlocal failures
        broken = failures < 3
        failures += 1
        if committed:
            async with ledger.transaction() as connection:
                yield connection
            if broken:
                raise ConnectionResetError("after the commit")
        else:
            async with ledger.transaction() as connection:
                yield connection
                if broken:
                    raise StoreUnavailable("before the commit")

    async def handler(item: Item, connection: Any) -> Outcome:
        await ledger.write(connection, item.key)
        return item.done()

    summary = await frontier.run(handler, transaction=transaction, workers=1)
    assert sorted(await ledger.keys()) == ["a", "b", "c"]
    assert (await frontier.status()).done == 3
    assert (summary.done, summary.lost) == (3, 0)
    assert failures == (3 if committed else 6)


async def test_a_store_that_cannot_be_reached_counts_no_attempt(frontier: Frontier, ledger: Ledger) -> None:
    await frontier.add("a")
    attempts = []

    async def handler(item: Item, connection: Any) -> Outcome:
        attempts.append(item.attempts)
        if len(attempts) < 3:
            raise StoreUnavailable("gone for a moment")
        await ledger.write(connection, item.key)
        return item.done()

    await frontier.run(handler, transaction=ledger.transaction)
    assert attempts == [0, 0, 0]
    assert await ledger.keys() == ["a"]


async def test_whoever_lost_the_lease_has_written_nothing(frontier: Frontier, ledger: Ledger) -> None:
    """INV-2: what it wrote is rolled back with the settlement that is refused."""
    await frontier.add("a")
    late = await frontier.claim(lease=LEASE)
    assert late is not None
    successor = None
    while successor is None:
        successor = await frontier.claim(lease=60)
        await asyncio.sleep(LEASE / 20)

    async def handler(item: Item, connection: Any) -> Outcome:
        await ledger.write(connection, item.key)
        return item.done()

    ended = await execute(
        Execution(late._leased, late.items[0], lease_clock()),
        handler,
        timeout=None,
        transactions=Transactions(ledger.transaction, StoreRetry(frontier._session.emit)),
    )
    assert ended.outcome is not None
    assert ended.outcome.move.kind is MoveKind.RELEASE
    assert await ledger.keys() == []
    await successor.settle([item.done() for item in successor.items])


async def test_one_connection_for_two_items_at_once_ends_the_run(frontier: Frontier, ledger: Ledger) -> None:
    """Otherwise the commit of one makes the other's writes last, which its settlement may not follow."""
    await frontier.add(["a", "b", "c"])

    async def handler(item: Item, connection: Any) -> None:
        assert item.attempts == 0
        await ledger.write(connection, item.key)
        await asyncio.sleep(0.05)

    async with ledger.connection() as shared:

        @asynccontextmanager
        async def transaction() -> AsyncIterator[Any]:
            yield shared

        with pytest.raises(WrongTransaction, match="for two items at once"):
            await frontier.run(handler, workers=3, transaction=transaction)
    status = await frontier.status()
    assert (status.ready, status.done, status.dead) == (3, 0, 0)
    await frontier.run(handler, workers=3, transaction=ledger.transaction)
    assert (await frontier.status()).done == 3


async def test_a_connection_that_is_lent_again_is_not_shared(frontier: Frontier, ledger: Ledger) -> None:
    """As from a pool: the next one has it before the first has heard that it gave it back."""
    keys = [f"k{n}" for n in range(20)]
    await frontier.add(keys)
    free = asyncio.Semaphore()

    async def handler(item: Item, connection: Any) -> None:
        await ledger.write(connection, item.key)

    async with ledger.connection() as connection:

        @asynccontextmanager
        async def transaction() -> AsyncIterator[Any]:
            async with free, ledger.within(connection):
                yield connection
            await asyncio.sleep(0.01)

        await frontier.run(handler, workers=4, transaction=transaction)
    assert sorted(await ledger.keys()) == sorted(keys)


async def test_output_and_transaction_exclude_each_other(frontier: Frontier, ledger: Ledger) -> None:
    async def handler(item: Item, connection: Any) -> None:
        return None

    with pytest.raises(UsageError, match="both"):
        await frontier.run(handler, output=object(), transaction=ledger.transaction)  # type: ignore[arg-type]
