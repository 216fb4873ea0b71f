"""INV-2, INV-5. `settle(connection=)` runs in the caller's transaction, or not at all."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from swath.claim import Claim
from swath.core.errors import InvalidOutcome, LeaseLost, StoreUnavailable, WrongTransaction
from swath.core.item import Item
from swath.core.store import OutputMove, Settings
from swath.frontier import Frontier
from tests.conftest import Server, fresh_database
from tests.postgres.site import Site

INTRANS, INERROR = psycopg.pq.TransactionStatus.INTRANS, psycopg.pq.TransactionStatus.INERROR


@dataclass
class Caller:
    """Somebody with a table of their own, on a connection of either kind."""

    connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

    async def do(self, statement: str) -> list[Any]:
        if isinstance(self.connection, psycopg.Connection):
            cursor: Any = self.connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []
        cursor = await self.connection.execute(statement.encode())
        return await cursor.fetchall() if cursor.description else []

    async def write(self) -> None:
        await self.do("INSERT INTO own VALUES ('written')")

    @property
    def status(self) -> psycopg.pq.TransactionStatus:
        return self.connection.info.transaction_status


@pytest_asyncio.fixture(params=["sync", "async"])
async def caller(request: pytest.FixtureRequest, site: Site) -> AsyncIterator[Caller]:
    await site.sql("CREATE TABLE IF NOT EXISTS public.own (what text)")
    await site.sql("TRUNCATE public.own")
    if request.param == "sync":
        with psycopg.connect(site.location.dsn, autocommit=True) as connection:
            yield Caller(connection)
    else:
        async with await psycopg.AsyncConnection.connect(site.location.dsn, autocommit=True) as other:
            yield Caller(other)


async def claimed(site: Site, *keys: str, partitions: int = 1) -> tuple[Frontier, Claim]:
    frontier = Frontier(await site.store(Settings(partitions)))
    await frontier.add([Item(key, lane=key) for key in keys])
    claim = await frontier.claim()
    assert claim is not None
    assert len(claim.items) == len(keys)
    return frontier, claim


async def test_commit_together(site: Site, caller: Caller) -> None:
    frontier, claim = await claimed(site, "a", "b")
    await caller.do("BEGIN")
    await caller.write()
    await claim.settle(
        [item.done(discovered=["found"]) for item in claim.items],
        connection=caller.connection,
        outputs=[OutputMove("file", 0, 10)],
    )
    status = await frontier.status()
    assert (status.claimed, status.done, await frontier._store.outputs()) == (2, 0, {}), "nothing before the commit"
    assert await site.sql("SELECT * FROM public.own") == []
    await caller.do("COMMIT")
    status = await frontier.status()
    assert (status.claimed, status.done, status.ready, await frontier._store.outputs()) == (0, 2, 1, {"file": 10})
    assert await site.sql("SELECT * FROM public.own") == [("written",)]
    with pytest.raises(InvalidOutcome):
        await claim.settle([claim.items[0].done()])


async def test_roll_back_together(site: Site, caller: Caller) -> None:
    frontier, claim = await claimed(site, "a")
    await caller.do("BEGIN")
    await caller.write()
    await claim.settle([claim.items[0].done(discovered=["found"])], connection=caller.connection)
    await caller.do("ROLLBACK")
    status = await frontier.status()
    assert (status.claimed, status.done, status.ready) == (1, 0, 0)
    assert await site.sql("SELECT * FROM public.own") == []
    assert (await frontier.explain("found")).state == "unknown"
    await claim.settle([claim.items[0].done()])
    assert (await frontier.status()).done == 1


async def test_a_rolled_back_key_can_be_added(site: Site, caller: Caller) -> None:
    """Keys count as known only after a commit, which a caller's transaction does not report."""
    frontier, claim = await claimed(site, "a")
    await caller.do("BEGIN")
    await claim.settle([claim.items[0].done(discovered=["found"])], connection=caller.connection)
    await caller.do("ROLLBACK")
    assert await frontier.add("found") == 1
    assert (await frontier.status()).ready == 1


async def test_several_partitions_in_one_transaction(site: Site, caller: Caller) -> None:
    frontier, claim = await claimed(site, *"abcdefgh", partitions=4)
    assert len(claim.partitions) > 1
    await caller.do("BEGIN")
    await claim.settle([item.done() for item in claim.items], connection=caller.connection)
    await caller.do("COMMIT")
    status = await frontier.status()
    assert (status.done, status.claimed) == (8, 0)


async def test_no_transaction_is_refused(site: Site, caller: Caller) -> None:
    frontier, claim = await claimed(site, "a")
    with pytest.raises(WrongTransaction, match="no open transaction"):
        await claim.settle([claim.items[0].done()], connection=caller.connection)
    assert (await frontier.status()).claimed == 1
    await claim.settle([claim.items[0].done()])
    assert (await frontier.status()).done == 1


async def test_a_settlement_may_begin_the_transaction(site: Site) -> None:
    """As psycopg does it without autocommit, for a caller that has written nothing."""
    frontier, claim = await claimed(site, "a")
    async with await psycopg.AsyncConnection.connect(site.location.dsn) as connection:
        await claim.settle([claim.items[0].done()], connection=connection)
        await connection.rollback()
        assert (await frontier.status()).claimed == 1
        await claim.settle([claim.items[0].done()], connection=connection)
    assert (await frontier.status()).done == 1


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
async def test_other_isolation_is_refused(site: Site, caller: Caller, level: str) -> None:
    """With a stricter isolation, statements after the lock would read a snapshot from before it."""
    frontier, claim = await claimed(site, "a")
    await caller.do(f"BEGIN ISOLATION LEVEL {level}")
    await caller.write()
    with pytest.raises(WrongTransaction, match=level.lower()):
        await claim.settle([claim.items[0].done()], connection=caller.connection)
    await caller.do("COMMIT")
    assert await site.sql("SELECT * FROM public.own") == [], "it could commit after all"
    await claim.settle([claim.items[0].done()])
    assert (await frontier.status()).done == 1


async def test_a_failed_transaction_is_refused(site: Site, caller: Caller) -> None:
    _, claim = await claimed(site, "a")
    await caller.do("BEGIN")
    with pytest.raises(psycopg.errors.DivisionByZero):
        await caller.do("SELECT 1 / 0")
    with pytest.raises(WrongTransaction, match="roll it back"):
        await claim.settle([claim.items[0].done()], connection=caller.connection)


async def test_a_lost_lease_takes_the_callers_writes_along(site: Site, caller: Caller) -> None:
    """INV-2. The transaction can only roll back, also when the caller ignores the error and commits."""
    frontier, claim = await claimed(site, "a")
    site.clock.advance(61)
    successor = await frontier.claim()
    assert successor is not None
    await caller.do("BEGIN")
    await caller.write()
    with pytest.raises(LeaseLost):
        await claim.settle([claim.items[0].done()], connection=caller.connection)
    assert caller.status == INERROR
    await caller.do("COMMIT")
    assert await site.sql("SELECT * FROM public.own") == []
    status = await frontier.status()
    assert (status.claimed, status.done) == (1, 0)


async def test_one_bad_settlement_spoils_the_whole(site: Site, caller: Caller) -> None:
    """INV-5 over partitions: those that went well before roll back with the one that did not."""
    frontier, claim = await claimed(site, *"abcdefgh", partitions=4)
    last = claim.partitions[-1]
    other = [item for item in claim.items if item.partition == last]
    store = frontier._store
    await site.sql("DELETE FROM {schema}.claimed WHERE partition = %s AND position = %s", last, other[0].position)
    await caller.do("BEGIN")
    with pytest.raises(InvalidOutcome):
        await claim.settle([item.done() for item in claim.items], connection=caller.connection)
    assert caller.status == INERROR
    await caller.do("COMMIT")
    assert sum(status.done for status in (await store.status()).partitions) == 0


@pytest.mark.parametrize("thing", [object(), "postgresql://", 5])
async def test_a_wrong_connection_is_refused(site: Site, thing: object) -> None:
    _, claim = await claimed(site, "a")
    with pytest.raises(WrongTransaction, match="psycopg connection"):
        await claim.settle([claim.items[0].done()], connection=thing)
    with closing(sqlite3.connect(":memory:")) as file, pytest.raises(WrongTransaction, match="psycopg connection"):
        await claim.settle([claim.items[0].done()], connection=file)


async def test_another_database_is_refused(site: Site, server: Server) -> None:
    """There the frontier is not: an error of ours says so, and nothing is settled."""
    frontier, claim = await claimed(site, "a")
    with fresh_database(server) as elsewhere, psycopg.connect(elsewhere) as connection:
        connection.execute("SELECT 1")
        with pytest.raises(WrongTransaction, match=connection.info.dbname):
            await claim.settle([claim.items[0].done()], connection=connection)
    assert (await frontier.status()).claimed == 1


async def test_a_namesake_in_another_database_is_not_settled(site: Site, server: Server) -> None:
    """The same schema name there, and the same fence: the token tells them apart."""
    frontier, claim = await claimed(site, "a")
    with fresh_database(server) as elsewhere:
        namesake = Site(f"{elsewhere if '?' in elsewhere else elsewhere + '?'}&schema={site.location.schema}")
        other, _ = await claimed(namesake, "a")
        async with await psycopg.AsyncConnection.connect(namesake.location.dsn) as connection:
            await connection.execute("SELECT 1")
            with pytest.raises(LeaseLost):
                await claim.settle([claim.items[0].done()], connection=connection)
        assert (await other.status()).claimed == 1
        await namesake.close()
    assert (await frontier.status()).claimed == 1


@pytest.mark.parametrize("cursors", [psycopg.AsyncClientCursor, psycopg.AsyncRawCursor])
async def test_row_factory_and_cursors_of_the_caller_do_not_matter(
    site: Site, cursors: type[psycopg.AsyncCursor[Any]]
) -> None:
    frontier, claim = await claimed(site, "a")
    async with await psycopg.AsyncConnection.connect(
        site.location.dsn, row_factory=psycopg.rows.dict_row, cursor_factory=cursors
    ) as connection:
        await connection.execute("SELECT 1")
        await claim.settle([claim.items[0].done()], connection=connection)
    assert (await frontier.status()).done == 1


async def test_raw_cursors_of_a_caller_who_blocks_do_not_matter(site: Site) -> None:
    frontier, claim = await claimed(site, "a")
    with psycopg.connect(site.location.dsn, cursor_factory=psycopg.RawCursor) as connection:
        await claim.settle([claim.items[0].done()], connection=connection)
    assert (await frontier.status()).done == 1


async def test_an_encoding_of_the_callers_that_has_no_such_letters(site: Site) -> None:
    frontier, claim = await claimed(site, "a")
    async with await psycopg.AsyncConnection.connect(site.location.dsn, client_encoding="LATIN1") as connection:
        with pytest.raises(
            WrongTransaction, match=r"settling claim .*iso8859-1.* cannot encode 'я'.*client_encoding=UTF8"
        ):
            await claim.settle([claim.items[0].done(discovered=["я"])], connection=connection)
        await connection.rollback()
        await claim.settle([claim.items[0].done(discovered=["é"])], connection=connection)
    assert (await frontier.explain("é")).state == "ready"


async def test_waiting_for_the_partition_ends(site: Site, caller: Caller) -> None:
    """The caller's own time limit for locks is honoured, and the error says to try again."""
    _, claim = await claimed(site, "a")
    await site.lock(0)
    await caller.do("BEGIN")
    await caller.do("SET LOCAL statement_timeout = '200ms'")
    async with asyncio.timeout(20):
        with pytest.raises(StoreUnavailable):
            await claim.settle([claim.items[0].done()], connection=caller.connection)
