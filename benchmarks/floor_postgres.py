"""The floor on PostgreSQL: psycopg in pipeline mode, prepared set-based statements, one round trip per transaction."""

import asyncio
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from benchmarks.floor import LEASE, Arrival, Counted, Held, hash_links
from benchmarks.work import Link, Web
from swath.backends.postgres.connections import MAX_CONNECTIONS

# The same settings as swath's functions: no plan depends on statistics, and statements are planned once.
SESSION = (
    "SET enable_seqscan = off",
    "SET enable_hashjoin = off",
    "SET enable_mergejoin = off",
    "SET jit = off",
    "SET plan_cache_mode = force_generic_plan",
)


# The columns of a new row that differ from the row it replaces.
STARTED_LANE = {
    "version": "s.version + 1",
    "ready_at": "%(now)s",
    "in_flight": "q.in_flight + 1",
    "taken": "q.taken + 1",
    "level": "NULL::smallint",
    "counts": "q.counts[1:3] || (q.counts[4] - 1) || q.counts[5:8]",
}
CHANGED_LANE = {
    "version": "s.version + 1",
    "ready_at": "CASE WHEN o.level = 3 THEN o.ready_at ELSE %(now)s END",
    "last_at": "CASE WHEN o.flight < 0 THEN %(now)s ELSE o.last_at END",
    "in_flight": "o.in_flight + o.flight",
    "level": "(CASE WHEN o.in_flight + o.flight = 0 AND o.counts[4] + o.wait > 0 THEN 3 END)::smallint",
    "counts": "o.counts[1:3] || (o.counts[4] + o.wait) || o.counts[5:8]",
}
CLAIMED_STATE = {
    "version": "s.version + 1",
    "time": "%(now)s",
    "ready": "s.ready - t.items",
    "claimed": "s.claimed + t.items",
    "claims_made": "s.claims_made + 1",
    "ready_floor": "s.ready_floor[1:3] || coalesce((SELECT min(q.ready_at) FROM queue AS q), s.ready_floor[4]) "
    "|| s.ready_floor[5:8]",
    "claims": "s.claims || f.fence",
}
CHANGED_STATE = {
    "version": "c.version + 1",
    "time": "%(now)s",
    "next_position": "c.next_position + c.found",
    "next_place": "c.next_place + c.found",
    "ready": "c.ready + c.found",
    "claimed": "c.claimed - c.items",
    "done": "c.done + c.items",
    "claims": "array_remove(c.claims, %(fence)s::bigint)",
}


def _statements(connection: psycopg.Connection[Any], schema: str) -> dict[str, str]:
    """Return the statements of floor_postgres.sql, with the columns of this frontier's tables filled in."""
    found = {}
    for block in Path(__file__).with_suffix(".sql").read_text(encoding="utf-8").split("-- name: ")[1:]:
        name, _, text = block.partition("\n")
        found[name.strip()] = "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()
    lanes, states = (_column_names(connection, schema, table) for table in ("lane_state", "partition_state"))
    pieces = {
        "intake": found["intake"],
        "lane_columns": ", ".join(lanes),
        "started_lane": _row("q", lanes, STARTED_LANE),
        "changed_lane": _row("o", lanes, CHANGED_LANE),
        "state_columns": ", ".join(states),
        "claimed_state": _row("s", states, CLAIMED_STATE),
        "changed_state": _row("c", states, CHANGED_STATE),
    }
    for name in ("take", "drain", "settle"):
        for piece, text in pieces.items():
            found[name] = found[name].replace("{" + piece + "}", text)
    return found


def _column_names(connection: psycopg.Connection[Any], schema: str, table: str) -> list[str]:
    rows = connection.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s "
        "ORDER BY ordinal_position",
        (schema, table),
    ).fetchall()
    return [row[0] for row in rows]


def _row(alias: str, columns: Sequence[str], changes: Mapping[str, str]) -> str:
    return ", ".join(changes.get(column, f"{alias}.{column}") for column in columns)


Rows = list[tuple[Any, ...]]


class Transaction(NamedTuple):
    partition: int  # to lock
    names: Sequence[str]  # statements to run
    given: Mapping[str, Any]


class ClaimKey(NamedTuple):
    """Identifies a claim."""

    partition: int
    token: int


class PostgresFloor:
    """One connection for `cycle`, and up to `connections` for the coroutines of an event loop."""

    def __init__(self, dsn: str, schema: str, *, partitions: int, first: int, web: Web, connections: int = 1) -> None:
        self._web = web
        self._partitions = partitions
        self._next = first
        self._dsn = dsn
        self._options: dict[str, Any] = {
            "autocommit": True,
            "options": f"-c search_path={schema}",
            "application_name": "floor",
            "prepare_threshold": 0,
        }
        self._db = psycopg.connect(dsn, **self._options)
        for statement in SESSION:
            self._db.execute(statement)
        self._statements = _statements(self._db, schema)
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)
        self._idle: list[psycopg.AsyncConnection[Any]] = []

    def cycle(self, batch: int, *, links: bool) -> Counted:
        for transaction, key in self._claims(batch, drain=links):
            if rows := self._transact(self._db, transaction):
                found = self._make_links(rows, links=links)
                self._transact(self._db, _settle(key, rows, hash_links(found, self._partitions)))
                return Counted(len(rows), len(found))
        return Counted(0, 0)

    async def cycle_in_loop(self, batch: int, *, links: bool) -> Counted:
        held = await self.claim_in_loop(batch, drain=links)
        if not held.items:
            return Counted(0, 0)
        _, rows = held.claim
        found = self._make_links(rows, links=links)
        await self.settle_in_loop(held, found)
        return Counted(held.items, len(found))

    async def claim_in_loop(self, batch: int, *, drain: bool = False) -> Held:
        for transaction, key in self._claims(batch, drain=drain):
            if rows := await self._transact_in_loop(transaction):
                return Held(len(rows), (key, rows))
        return Held(0, None)

    async def settle_in_loop(self, held: Held, links: Sequence[Link] = ()) -> None:
        key, rows = held.claim
        await self._transact_in_loop(_settle(key, rows, hash_links(links, self._partitions)))

    async def close(self) -> None:
        self._db.close()
        while self._idle:
            await self._idle.pop().close()

    def _claims(self, batch: int, *, drain: bool) -> Iterator[tuple[Transaction, ClaimKey]]:
        """Yield the claim of each partition in turn, for the caller to run until one returns rows."""
        for _ in range(self._partitions):
            partition = self._next = (self._next + 1) % self._partitions
            token = secrets.randbits(62)
            yield _claim(partition, batch, token, drain=drain), ClaimKey(partition, token)

    def _make_links(self, rows: Rows, *, links: bool) -> list[Link]:
        return [link for row in rows for link in self._web.links(row[2])] if links else []

    # Lock, then run the statements, in one round trip. Return the rows of the last statement.

    def _transact(self, db: psycopg.Connection[Any], transaction: Transaction) -> Rows:
        partition, names, given = transaction
        with db.pipeline():
            db.execute("BEGIN")
            db.execute(self._statements["lock"], {"partition": partition})
            cursors = [db.execute(self._statements[name], given, binary=True) for name in names]
            db.execute("COMMIT")
        return cursors[-1].fetchall()

    async def _transact_in_loop(self, transaction: Transaction) -> Rows:
        partition, names, given = transaction
        await self._free.acquire()
        try:
            db = self._idle.pop() if self._idle else await self._connect()
            async with db.pipeline():
                await db.execute("BEGIN")
                await db.execute(self._statements["lock"], {"partition": partition})
                cursors = [await db.execute(self._statements[name], given, binary=True) for name in names]
                await db.execute("COMMIT")
            rows = await cursors[-1].fetchall()
            self._idle.append(db)
            return rows
        finally:
            self._free.release()

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        db = await psycopg.AsyncConnection.connect(self._dsn, **self._options)
        for statement in SESSION:
            await db.execute(statement)
        return db


def _claim(partition: int, batch: int, token: int, *, drain: bool) -> Transaction:
    now = time.time_ns() // 1_000
    given = {
        "partition": partition,
        "now": now,
        "limit": batch,
        "token": token,
        "expires_at": now + LEASE,
        "fence": 0,
    }
    return Transaction(partition, ["drain", "take"] if drain else ["take"], given)


def _settle(key: ClaimKey, rows: Rows, found: Sequence[Arrival]) -> Transaction:
    partition, token = key
    mine = [one for one in found if one.partition == partition]
    others = [one for one in found if one.partition != partition]
    given = {
        "partition": partition,
        "now": time.time_ns() // 1_000,
        "fence": rows[0][0],
        "token": token,
        "positions": _array(str(row[1]) for row in rows),
        **_columns("", mine),
        "other_partitions": _array(str(one.partition) for one in others),
        **_columns("other_", others),
    }
    return Transaction(partition, ["settle"], given)


def _columns(prefix: str, found: Sequence[Arrival]) -> dict[str, str]:
    return {
        f"{prefix}hashes": _array(f'"\\\\x{one.hash.hex()}"' for one in found),
        f"{prefix}lanes": _array(f'"{one.lane}"' for one in found),
        f"{prefix}keys": _array(f'"{one.key}"' for one in found),
    }


def _array(texts: Iterable[str]) -> str:
    """Return an array literal, the cheapest way to send an array. The keys of the benchmark need no escapes."""
    return "{" + ",".join(texts) + "}"
