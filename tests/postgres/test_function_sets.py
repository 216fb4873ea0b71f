"""Stored functions are named after their content: two versions work side by side, and open installs what is missing."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import psycopg
import pytest

from swath.backends import sql
from swath.backends.postgres import PostgresStore, migrate
from swath.backends.postgres.format import FORMAT
from swath.backends.postgres.function_sets import install
from swath.backends.postgres.statements import FUNCTIONS, FunctionSet
from swath.core.errors import SchemaError, SchemaOutdated
from swath.core.store import ClaimRef, ClaimRequest, Move, MoveKind, Settings, Settlement
from tests.postgres.site import Site
from tests.recorder import PATIENCE

EARLIER_FILE = Path(__file__).parent / "fixtures" / "functions_earlier.sql"
GROUP = 5
ITEMS = 200


def load_earlier() -> FunctionSet:
    text = EARLIER_FILE.read_text()
    statements = sql.parse(text, source=EARLIER_FILE.name)
    return FunctionSet(text.split("functions, ")[1].split(",")[0], dict(statements))


EARLIER = load_earlier()


class EarlierWorker:
    """A worker of an earlier version of swath: it calls the functions of the earlier set."""

    def __init__(self, site: Site, connection: psycopg.AsyncConnection[Any], tokens: "itertools.count[int]") -> None:
        self._site, self._connection, self._tokens = site, connection, tokens
        self.done: list[str] = []

    async def work(self) -> bool:
        """Claim some items and settle them as done; return False if nothing was ready."""
        token = next(self._tokens)
        (claim,) = await self._call(
            "claim", FORMAT, None, GROUP, 60_000_000, "earlier", token, "{0,1}", None, 4, 1_000, 1_000
        )
        if not claim["fence"]:
            return False
        partitions = [
            partition
            for partition, count in zip(claim["partitions"], claim["counts"], strict=True)
            for _ in range(count)
        ]
        for number, partition in enumerate(sorted(set(partitions)), 1):
            mine = [n for n, found in enumerate(partitions) if found == partition]
            positions = "{" + ",".join(str(claim["positions"][n]) for n in mine) + "}"
            ahead = (FORMAT, None, partition, claim["fence"], token, number, positions)
            await self._call("settle", *ahead, *["{}"] * (SETTLE_ARGUMENTS - len(ahead)))
            self.done += [claim["keys"][n] for n in mine]
        return True

    async def _call(self, function: str, *arguments: Any) -> list[dict[str, Any]]:
        call = f"SELECT * FROM {{schema}}.{function}_{EARLIER.hash}({', '.join(['%s'] * len(arguments))})"
        cursor = psycopg.AsyncCursor(self._connection, row_factory=psycopg.rows.dict_row)
        return await (await cursor.execute(self._site.location.fill(call), arguments)).fetchall()


SETTLE_ARGUMENTS = EARLIER.statements["settle"].split("OUT now", 1)[0].count(",")


async def installed(site: Site) -> set[str]:
    """Return the sets that the table names, after checking that all of their functions and no others exist."""
    sets = {name for (name,) in await site.sql("SELECT hash FROM {schema}.function_set")}
    functions = {
        name
        for (name,) in await site.sql(
            "SELECT proname FROM pg_proc WHERE pronamespace = %s::regnamespace", site.location.schema
        )
    }
    known = {FUNCTIONS.hash: FUNCTIONS, EARLIER.hash: EARLIER}
    assert functions == {f"{name}_{digest}" for digest in sets for name in known[digest].statements}
    return sets


async def make_earlier(site: Site, settings: Settings) -> None:
    """Create a frontier as the earlier version did: with its own functions only."""
    store = await site.store(settings)
    await store.close()
    await remove_functions(site)
    async with await site.connect() as connection, connection.transaction():
        assert await install(connection, site.location, EARLIER)
    assert await installed(site) == {EARLIER.hash}


async def remove_functions(site: Site) -> None:
    for (function,) in await site.sql(
        "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = %s::regnamespace", site.location.schema
    ):
        await site.sql(f"DROP FUNCTION {function}")
    await site.sql("DELETE FROM {schema}.function_set")


async def test_the_earlier_set_differs_from_this_one() -> None:
    assert EARLIER.hash != FUNCTIONS.hash
    assert all(f"{name}_{EARLIER.hash}(" in statement for name, statement in EARLIER.statements.items())


async def test_workers_of_two_versions_finish_a_frontier_together(site: Site) -> None:
    """A store of the earlier version is opened and migrated while workers of both versions run: nothing is lost."""
    await make_earlier(site, Settings(2))
    tokens = itertools.count(1_000_000)
    earlier = EarlierWorker(site, await site.connect(), tokens)
    store = await PostgresStore.open(site.url)  # with the database's clock, as the earlier worker
    site.opened.append(store)
    assert await installed(site) == {EARLIER.hash, FUNCTIONS.hash}
    trial = await site.trial()
    await store.add([trial.item(f"key{n}", lane=f"lane{n % 11}") for n in range(ITEMS)])
    mine: list[str] = []

    async def run_earlier() -> None:
        while len(mine) + len(earlier.done) < ITEMS:
            if not await earlier.work():
                await asyncio.sleep(0)

    async def run_present() -> None:
        while len(mine) + len(earlier.done) < ITEMS:
            token = next(tokens)
            reply = await store.claim(ClaimRequest(GROUP, 60_000_000, "present", token, [1, 0]))
            for number, partition in enumerate(sorted({item.partition for item in reply.items}), 1):
                items = [item for item in reply.items if item.partition == partition]
                moves = [Move(item.position, MoveKind.DONE) for item in items]
                await store.settle(ClaimRef(reply.fence, token), Settlement(partition, number, moves))
                mine.extend(item.key for item in items)

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(run_earlier(), run_present(), migrate(site.url))
    assert sorted(mine + earlier.done) == sorted(f"key{n}" for n in range(ITEMS))
    assert mine
    assert earlier.done
    status = await store.status()
    assert sum(part.done for part in status.partitions) == ITEMS
    assert [tuple(part) for part in await store.recount()] == [tuple(part) for part in status.partitions]
    assert await installed(site) == {EARLIER.hash, FUNCTIONS.hash}, "the earlier set was in use"


async def test_an_earlier_worker_keeps_the_lane_counters_of_this_one(site: Site) -> None:
    await make_earlier(site, Settings(2))
    trial = await site.trial()
    lane = trial.lane(0)
    await trial.add("a", "b", lane=lane)
    batch = await trial.claim(1)
    move = Move(batch.only.position, MoveKind.DONE)
    await trial.store.settle(
        batch.ref, Settlement(0, 1, [move], counters={"pages": 1}, lane_counters={lane: {"pages": 7}})
    )
    site.clock.advance(1)
    connection = await site.connect()
    worker = EarlierWorker(site, connection, itertools.count(77))
    assert await worker.work()
    row = await trial.store.lane(0, lane)
    assert row is not None
    assert dict(row.counters) == {"pages": 7}
    assert worker.done == ["b"]


async def test_many_open_a_store_of_an_earlier_version_at_once(site: Site) -> None:
    await make_earlier(site, Settings(2))
    await asyncio.gather(*(site.store() for _ in range(6)), migrate(site.url))
    assert await installed(site) == {EARLIER.hash, FUNCTIONS.hash}


async def test_a_role_that_may_not_create_functions_is_told_the_command(site: Site, role: str) -> None:
    await make_earlier(site, Settings(2))
    await grant(site, role)
    url = site.url.replace("postgres@", f"{role}@")
    with pytest.raises(
        SchemaOutdated, match=rf"lacks the stored functions .*{FUNCTIONS.hash}.*permission denied"
    ) as caught:
        await PostgresStore.open(url)
    assert "Run `swath db migrate --store 'postgresql://" in str(caught.value)
    assert await installed(site) == {EARLIER.hash}
    assert await migrate(site.url) == [f"functions {FUNCTIONS.hash}"]
    site.opened.append(await PostgresStore.open(url))


async def grant(site: Site, role: str) -> None:
    await site.sql(f"GRANT USAGE ON SCHEMA {{schema}} TO {role}")
    await site.sql(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {{schema}} TO {role}")
    await site.sql(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {{schema}} TO {role}")


async def test_grants_are_copied_from_the_previous_set(site: Site, role: str) -> None:
    """Nobody but one role may execute the functions of the earlier set: so it is with the new one."""
    await make_earlier(site, Settings(2))
    await grant(site, role)
    await site.sql("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC")
    await site.sql(f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {{schema}} TO {role} WITH GRANT OPTION")
    await site.store()
    rows = await site.sql(
        "SELECT p.proname, has_function_privilege('public', p.oid, 'EXECUTE'), "
        "has_function_privilege(%s, p.oid, 'EXECUTE WITH GRANT OPTION') "
        "FROM pg_proc AS p WHERE p.pronamespace = %s::regnamespace",
        role,
        site.location.schema,
    )
    assert len(rows) == len(EARLIER.statements) + len(FUNCTIONS.statements)
    assert {row[1:] for row in rows} == {(False, True)}
    store = await PostgresStore.open(site.url.replace("postgres@", f"{role}@"))
    site.opened.append(store)
    assert (await store.status()).settings == Settings(2)


async def test_a_role_that_only_reads_opens_a_store_whose_use_was_recorded_long_ago(site: Site, role: str) -> None:
    await site.store()
    await site.sql(f"GRANT USAGE ON SCHEMA {{schema}} TO {role}")
    await site.sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA {{schema}} TO {role}")
    await age(site, FUNCTIONS.hash, days=2)
    store = await PostgresStore.open(site.url.replace("postgres@", f"{role}@"))
    site.opened.append(store)
    await store.status()


async def age(site: Site, digest: str, *, days: float) -> None:
    await site.sql(
        "UPDATE {schema}.function_set SET used_at = used_at - make_interval(secs => %s) WHERE hash = %s",
        days * 86_400,
        digest,
    )


async def test_migrate_removes_a_set_that_nobody_used_for_a_week(site: Site) -> None:
    await make_earlier(site, Settings(2))
    await site.store()
    await age(site, EARLIER.hash, days=6)
    assert await migrate(site.url) == []
    assert await installed(site) == {EARLIER.hash, FUNCTIONS.hash}
    await age(site, EARLIER.hash, days=2)
    await age(site, FUNCTIONS.hash, days=30)
    assert await migrate(site.url) == [f"removal of functions {EARLIER.hash}"]
    assert await installed(site) == {FUNCTIONS.hash}, "the set of the migrating version stays"


async def test_a_process_whose_functions_were_removed_installs_them_again(site: Site) -> None:
    trial = await site.trial()
    await trial.add("a")
    await remove_functions(site)
    assert (await trial.claim()).keys == ["a"]
    assert await installed(site) == {FUNCTIONS.hash}


async def test_a_process_records_that_it_uses_its_functions(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swath.backends.postgres.calls.REFRESH_SECONDS", 0.0)
    store = await site.store()
    await age(site, FUNCTIONS.hash, days=30)
    await store.status()
    ((recent,),) = await site.sql("SELECT used_at > now() - interval '1 hour' FROM {schema}.function_set")
    assert recent


async def test_open_records_that_it_uses_its_functions(site: Site) -> None:
    await site.store()
    await age(site, FUNCTIONS.hash, days=30)
    await site.store()
    ((recent,),) = await site.sql("SELECT used_at > now() - interval '1 hour' FROM {schema}.function_set")
    assert recent


async def test_a_replaced_function_is_refused_before_it_is_called(site: Site) -> None:
    """A reply with another column would be read wrongly after the claim has committed."""
    trial = await site.trial()
    await trial.add("a")
    statement = FUNCTIONS.statements["claim"].replace("OUT starts_count", "OUT fairness integer, OUT starts_count")
    ((signature,),) = await site.sql("SELECT '{schema}.claim_{set}'::regproc::regprocedure::text")
    await site.sql(f"DROP FUNCTION {signature}")
    await site.sql(
        site.location.fill(statement, fence_sequence=site.location.fill("{schema}.fence")).replace("%", "%%")
    )
    with pytest.raises(SchemaError, match=r"claim_.*returns the columns .*fairness.*nothing was changed"):
        await trial.claim()
    assert await site.sql("SELECT count(*) FROM {schema}.claim") == [(0,)]
    assert (await trial.status()).ready == 1


async def test_a_replaced_settle_is_refused_in_the_transaction_of_the_caller(site: Site) -> None:
    trial = await site.trial()
    await trial.add("a")
    batch = await trial.claim()
    statement = FUNCTIONS.statements["settle"].replace("OUT version", "OUT revision")
    statement = statement.replace("version := s.version", "revision := s.version")
    ((signature,),) = await site.sql("SELECT '{schema}.settle_{set}'::regproc::regprocedure::text")
    await site.sql(f"DROP FUNCTION {signature}")
    await site.sql(site.location.fill(statement).replace("%", "%%"))
    connection = await site.connect()
    await connection.execute("BEGIN")
    settlement = Settlement(0, 1, [Move(batch.only.position, MoveKind.DONE)])
    with pytest.raises(SchemaError, match="revision"):
        await trial.store.settle(batch.ref, settlement, connection=connection)
    await connection.rollback()
    assert (await trial.status()).claimed == 1


async def test_tables_of_an_unreleased_version_are_refused(site: Site) -> None:
    await site.store()
    await site.sql("UPDATE {schema}.migration SET hash = 'other'")
    for attempt in (PostgresStore.open(site.url), migrate(site.url)):
        with pytest.raises(SchemaError, match=r"unreleased version .* 0001_frontier\.sql .* cannot be upgraded"):
            await attempt
    await site.sql("ALTER TABLE {schema}.migration DROP COLUMN hash")
    with pytest.raises(SchemaError, match="unreleased version"):
        await PostgresStore.open(site.url)
