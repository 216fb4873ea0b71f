"""What no waiting mends ends a run, and says what to do; what passes is waited out."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from swath.backends.postgres import PostgresStore
from swath.core.errors import StoreUnavailable, SwathError, UsageError, WrongTransaction
from swath.core.events import Event, Waiting
from swath.core.item import Item
from swath.core.store import ClaimRequest, Fact, Settings
from swath.frontier import Frontier
from tests.postgres.site import POLL_SECONDS, Site
from tests.recorder import PATIENCE

SHORT = "200ms"


async def open_with(site: Site, name: str, value: str) -> PostgresStore:
    """The same frontier, for somebody whose sessions have a setting of their own."""
    setting = quote(f"-c {name}=" + value.replace(" ", r"\ "))
    store = await PostgresStore.open(f"{site.url}&options={setting}", clock=site.clock)
    site.opened.append(store)
    return store


async def open_as(site: Site, role: str) -> PostgresStore:
    store = await PostgresStore.open(site.url.replace("postgres@", f"{role}@"), clock=site.clock)
    site.opened.append(store)
    return store


async def test_what_is_too_large_for_the_server(site: Site) -> None:
    """An index has a limit that no waiting lifts."""
    store = await site.store()
    with pytest.raises(UsageError, match=r"learning: too large for PostgreSQL \(index row .*nothing was changed"):
        await store.learn([Fact("a", "1"), Fact(secrets.token_hex(2_000), "2")])
    assert await store.facts(["a"]) == {}


async def test_the_longest_key_of_a_fact(site: Site) -> None:
    frontier = Frontier(await site.store())
    key = secrets.token_hex(1_000)
    await frontier.learn({key: 1})
    assert await frontier.facts([key]) == {key: 1}


async def test_a_time_limit_is_waited_out(site: Site) -> None:
    await site.store()
    limits = ["statement_timeout", "transaction_timeout"]  # the latter from PostgreSQL 17 on
    there = await site.sql("SELECT name FROM pg_settings WHERE name = ANY (%s) ORDER BY name", limits)
    assert ("statement_timeout",) in there
    for (limit,) in there:
        store = await open_with(site, limit, SHORT)
        holder = await site.lock(0)
        with pytest.raises(StoreUnavailable, match=r"is busy.*timeout.*Try again"):
            await store.reopen([(0, 1)])
        await holder.rollback()
        assert await store.reopen([(0, 1)]) == 0


async def test_a_claim_that_ran_out_of_time_says_so(site: Site) -> None:
    """The server has said no, so there is nothing to look up: to try again without a word would hide why."""
    await site.store()
    limits = ["statement_timeout", "transaction_timeout"]
    for (limit,) in await site.sql("SELECT name FROM pg_settings WHERE name = ANY (%s)", limits):
        store = await open_with(site, limit, SHORT)  # shorter than a claim waits for a lock
        holder = await site.lock(0)
        request = ClaimRequest(1, 1_000_000, "worker", 1, order=[0], wait_for=0)
        with pytest.raises(StoreUnavailable, match=r"is busy.*timeout.*Try again"):
            await store.claim(request)
        await holder.rollback()
        assert (await store.claim(request)).items == []


async def test_learning_waits_no_longer_than_other_moves(site: Site) -> None:
    store = await site.store()
    await store.learn([Fact("a", "1")])
    await site.sql(
        "DO $do$ BEGIN "
        "EXECUTE replace(pg_get_functiondef('{schema}.learn_{set}'::regproc), $$'30s'$$, $$'100ms'$$); END $do$"
    )
    holder = await site.connect()
    await holder.execute("BEGIN")
    await holder.execute(site.location.fill("UPDATE {schema}.fact SET value = '2'"))
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(StoreUnavailable, match=r"is busy.*lock timeout.*Try again"):
            await store.learn([Fact("a", "3")])
    await holder.rollback()


# The client must have read the reply to SET by then: what follows it in the same read, libpq takes for a notice.
IDLE_TIMEOUT = "500ms"


async def ended(site: Site, pid: int) -> None:
    """Wait until the server has ended a session."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if not await site.sql("SELECT 1 FROM pg_stat_activity WHERE pid = %s", pid):
                return
            await asyncio.sleep(POLL_SECONDS)


async def test_a_caller_who_idled_too_long(site: Site) -> None:
    """The session is gone, and the transaction with it: both can be had again."""
    frontier = Frontier(await site.store())
    await frontier.add("a")
    claim = await frontier.claim()
    assert claim is not None
    with psycopg.connect(site.location.dsn, autocommit=True) as caller:
        caller.execute("BEGIN")
        caller.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_TIMEOUT}'")
        await ended(site, caller.info.backend_pid)
        with pytest.raises(WrongTransaction, match=r"took too long \(.*idle-in-transaction timeout\)\."):
            await claim.settle([claim.items[0].done()], connection=caller)
    await claim.settle([claim.items[0].done()])


async def test_a_run_whose_transactions_take_too_long(site: Site) -> None:
    """That is the handler's doing: an attempt is counted, and there is an end to it."""
    frontier = Frontier(await site.store(Settings(1, max_attempts=1)))
    await frontier.add("a")

    async def handler(item: Item, connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE_TIMEOUT}'")
        await ended(site, connection.info.backend_pid)

    summary = await frontier.run(handler, transaction=partial(transaction, site), handle_signals=False)
    assert (summary.done, summary.died) == (0, 1)
    assert "which took too long" in (await frontier.explain("a")).data["reason"]


async def test_a_run_whose_transactions_cannot_write_says_so(site: Site) -> None:
    """They are begun again, without an attempt counted, as on a stand-by: whoever runs it has to hear of that."""
    happened: list[Event] = []
    frontier = Frontier(await site.store(), observer=happened.append)
    await frontier.add("a")
    calls = 0

    async def handler(item: Item, connection: psycopg.AsyncConnection[Any]) -> None:
        nonlocal calls
        calls += 1
        if calls < 3:
            await connection.execute("SET TRANSACTION READ ONLY")

    summary = await frontier.run(handler, transaction=partial(transaction, site), handle_signals=False)
    assert (summary.done, summary.retried, calls) == (1, 0, 3)
    waits = [event for event in happened if isinstance(event, Waiting)]
    assert len(waits) == 2
    assert all("read-only transaction" in event.reason for event in waits)


@asynccontextmanager
async def transaction(site: Site) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(site.location.dsn) as connection:
        yield connection


async def test_a_run_without_rights_ends(site: Site, role: str) -> None:
    """Step by step: each error names the GRANT that is missing, until there is none."""
    frontier = Frontier(await site.store())
    await frontier.add(["a", "b"])

    async def handler(item: Item) -> None: ...

    async def run() -> int:
        guest = Frontier(await open_as(site, role))
        async with asyncio.timeout(PATIENCE):
            return (await guest.run(handler, workers=1, handle_signals=False)).done

    schema = site.location.schema
    for denied, missing, grant in (
        (f"schema {schema}", f"USAGE ON SCHEMA {schema}", f"USAGE ON SCHEMA {schema}"),
        ("table frontier", "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES", f"SELECT ON ALL TABLES IN SCHEMA {schema}"),
        (
            "table partition",
            "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES",
            f"SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema}",
        ),
        ("sequence fence", "USAGE ON ALL SEQUENCES", f"USAGE ON ALL SEQUENCES IN SCHEMA {schema}"),
    ):
        with pytest.raises(SwathError, match=rf"permission denied for {denied}\. Grant .* {missing}") as caught:
            await run()
        assert not isinstance(caught.value, StoreUnavailable)
        await site.sql(f"GRANT {grant} TO {role}")
    assert await run() == 2


async def test_functions_that_a_role_may_not_call(site: Site, role: str) -> None:
    await site.store()
    schema = site.location.schema
    await site.sql("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM public")
    await site.sql(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    await site.sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")
    with pytest.raises(SwathError, match=r"permission denied for function .* Grant .* EXECUTE ON ALL FUNCTIONS"):
        await open_as(site, role)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_sessions_of_another_isolation(site: Site, level: str) -> None:
    """The setting of a role or database, and not a transaction of the caller's: the error names what was refused."""
    frontier = Frontier(await site.store())
    await frontier.add("a")
    other = Frontier(await open_with(site, "default_transaction_isolation", level))
    refused = rf": the transaction is {level}, .*nothing was changed.* default_transaction_isolation"
    with pytest.raises(UsageError, match=f"^adding{refused}"):
        await other.add("b")
    with pytest.raises(UsageError, match=f"^claiming{refused}"):
        await other.claim()
    status = await frontier.status()
    assert (status.ready, status.claimed) == (1, 0)


async def test_sessions_in_which_a_backslash_escapes(site: Site) -> None:
    await site.store()
    frontier = Frontier(await open_with(site, "standard_conforming_strings", "off"))
    key = "a\\b'c"
    await frontier.add(Item(key, lane=key, payload=key))
    assert (await frontier.explain(key)).state == "ready"
    claim = await frontier.claim()
    assert claim is not None
    assert [(item.key, item.lane, item.payload) for item in claim.items] == [(key, key, key)]
    await claim.settle([claim.items[0].done(discovered=[f"{key}2"], facts={key: key})])
    assert await frontier.facts([key]) == {key: key}
    assert ((await frontier.explain(key)).state, (await frontier.explain(f"{key}2")).state) == ("done", "ready")
