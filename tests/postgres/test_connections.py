"""The few connections of a process: some wait for a lock, and the rest of the work goes on."""

import asyncio
import os
import socket

import psycopg
import pytest

from swath.backends.postgres import connections
from swath.backends.postgres.connections import connect
from swath.backends.postgres.store import CONCURRENT_ADDS
from swath.conformance.trial import done
from swath.core.errors import StoreUnavailable, UsageError
from swath.core.store import OutputMove
from swath.runner.committer import MAX_CONCURRENT_COMMITS
from tests.conftest import StartPostgres
from tests.forking import passes_in_a_child
from tests.postgres.lending import Pooler
from tests.postgres.site import Site
from tests.recorder import PATIENCE


async def test_moves_that_wait_do_not_keep_leases_from_being_renewed(site: Site) -> None:
    """As many settlements as a runner sends at once, and additions, wait for partitions that somebody holds. Claims and
    renewals elsewhere do not."""
    last = CONCURRENT_ADDS + 1
    trial = await site.trial(partitions=last + 1)
    await trial.add(*(f"page{n}" for n in range(MAX_CONCURRENT_COMMITS)), lane=trial.lane(0))
    await trial.add("one", "two", lane=trial.lane(last))
    pages = await trial.claim(order=[0])
    one = await trial.claim(1, order=[last])
    holders = [await site.lock(partition) for partition in range(last)]
    waiting = [asyncio.create_task(pages.settle(done(item))) for item in pages.items]
    found = [trial.item(f"found{partition}", lane=trial.lane(partition)) for partition in range(1, last)]
    adding = asyncio.create_task(trial.store.add(found))
    await site.waiting(MAX_CONCURRENT_COMMITS + CONCURRENT_ADDS)
    async with asyncio.timeout(PATIENCE):
        _, two = await asyncio.gather(one.renew(), trial.claim(1, order=[last]))
    assert two.keys == ["two"]
    assert not any(move.done() for move in (*waiting, adding))
    for holder in holders:
        await holder.commit()
    await asyncio.gather(*waiting)
    assert await adding == CONCURRENT_ADDS
    await trial.check()


async def test_an_addition_that_fails_in_one_partition_says_so_after_the_others(site: Site) -> None:
    """What is in when it is told stays in, and nothing comes in later."""
    partitions = 2 * CONCURRENT_ADDS
    trial = await site.trial(partitions=partitions)
    await site.sql("ALTER FUNCTION {schema}.add_{set} SET lock_timeout TO '50ms'")
    holder = await site.lock(0)
    found = [trial.item(f"found{partition}", lane=trial.lane(partition)) for partition in range(partitions)]
    with pytest.raises(StoreUnavailable, match="is busy"):
        await trial.store.add(found)
    assert await trial.total("ready") == partitions - 1
    await holder.commit()
    assert await trial.store.add(found) == 1
    await trial.check()


async def test_a_process_has_few_connections(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)
    made = 0

    async def make() -> connections.AsyncConnection:
        nonlocal made
        made += 1
        return await psycopg.AsyncConnection.connect(database, autocommit=True)

    pool = connections.Connections(make)
    first, second = await pool.borrow(), await pool.borrow()
    waiting = asyncio.create_task(pool.borrow())
    await second.execute("SELECT 1")  # the event loop has run
    assert not waiting.done()
    await pool.give_back(first, None)
    async with asyncio.timeout(PATIENCE):
        assert await waiting is first
    await pool.give_back(first, None)
    await pool.give_back(second, None)
    await pool.close()
    assert (made, first.closed, second.closed) == (2, True, True)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_a_store_that_came_through_a_fork_is_refused(site: Site) -> None:
    """A child that spoke on its parent's connections would be answered in its place, or end them."""
    trial = await site.trial()
    await trial.store.wait(0)  # listens from now on

    async def in_the_child() -> None:
        for call in (trial.add("a"), trial.claim(), trial.status(), trial.store.wait(0)):
            with pytest.raises(UsageError, match="by a fork"):
                await call
        await trial.store.close()

    assert passes_in_a_child(lambda: asyncio.run(in_the_child()))
    assert await trial.add("a") == 1
    assert (await trial.claim()).keys == ["a"]
    assert trial.store.generation == 0, "no connection broke"


async def test_a_lock_is_waited_for_once(site: Site) -> None:
    """Who waited in vain has waited: the move is not sent again at once."""
    pooler = await Pooler.of(site.location.dsn, size=2)
    store = await site.store(connections=pooler)
    await site.sql("ALTER FUNCTION {schema}.reopen_{set} SET lock_timeout TO '50ms'")
    holder = await site.lock(0)
    before = len(pooler.lent)
    with pytest.raises(StoreUnavailable, match=r"is busy: .*lock timeout\. Try again"):
        await store.reopen([(0, 1)])
    assert len(pooler.lent) == before + 1
    await holder.commit()
    assert await store.reopen([(0, 1)]) == 0


async def test_a_lost_deadlock_is_tried_again(site: Site) -> None:
    """Nobody waits long in one, and whoever won it is soon gone."""
    pooler = await Pooler.of(site.location.dsn, size=2)
    trial = await site.trial(connections=pooler)
    await site.sql("ALTER FUNCTION {schema}.settle_{set} SET deadlock_timeout TO '2s'")
    await trial.add("page")
    batch = await trial.claim()
    lock = "SELECT pg_advisory_xact_lock(hashtextextended(%s || '/' || %s, 0))"
    other = await site.connect()
    await other.execute("BEGIN")
    await other.execute("SET LOCAL deadlock_timeout TO '60s'")  # the settlement is to be the one who loses
    await other.execute(lock, (site.location.schema, "two"))
    before = len(pooler.lent)
    settling = asyncio.create_task(
        batch.settle(done(batch.only), outputs=[OutputMove("one", 0, 1), OutputMove("two", 0, 2)])
    )
    await site.waiting()
    await other.execute(lock, (site.location.schema, "one"))
    await other.rollback()
    await settling
    assert len(pooler.lent) == before + 2
    assert await trial.store.outputs() == {"one": 1, "two": 2}
    await trial.check()


async def test_a_server_that_is_gone_is_noticed(start_postgres: StartPostgres) -> None:
    """A machine that vanishes sends nothing. A call that waits for it would wait for as long as TCP does by itself."""
    dsn = start_postgres(tcp=True).dsn(tcp=True)
    for given, idle, limit in (("", 10, 30_000), ("?keepalives_idle=7&tcp_user_timeout=5000", 7, 5_000)):
        async with await connect(dsn + given) as connection:
            with socket.socket(fileno=os.dup(connection.fileno())) as wire:
                assert wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == idle
                assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 5
                assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 4
                assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == limit
