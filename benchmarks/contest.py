"""Compare swath with other queues on the same server, or on a file on the same disk: rates and bytes on disk."""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass

import psycopg
from psycopg import sql

from benchmarks.children import Child, ChildFailed
from benchmarks.lab import Lab, PostgresLab, SqliteLab, file_bytes
from benchmarks.peers.entry import Task, Took, contend
from benchmarks.progress import say
from benchmarks.results import Figure, Results
from benchmarks.settings import Settings

LIMIT_FACTOR = 12  # a queue has this many times BENCH_SECONDS to work off its items
ADD_SECONDS = 600.0
GRACE_SECONDS = 60.0

EVERYTHING = "batches, lanes in fair turns, keys once for ever, fenced leases, checkpoint, counters"


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    module: str
    variant: str
    does: str  # what it does beyond running jobs
    lacks: str
    address: Callable[[Lab, str], str]


def _swath(lab: Lab, name: str) -> str:
    assert isinstance(lab, PostgresLab)
    return f"{lab.server.dsn(name)}&schema=swath"


def _plain(lab: Lab, name: str) -> str:
    assert isinstance(lab, PostgresLab)
    return lab.server.dsn(name)


def _sqlalchemy(lab: Lab, name: str) -> str:
    assert isinstance(lab, PostgresLab)
    return lab.server.dsn(name).replace("postgresql://", "postgresql+asyncpg://", 1)


def _file(synchronous: str) -> Callable[[Lab, str], str]:
    def address(lab: Lab, name: str) -> str:
        assert isinstance(lab, SqliteLab)
        return f"sqlite:///{lab.path(name)}?synchronous={synchronous}"

    return address


def _aiosqlite(lab: Lab, name: str) -> str:
    assert isinstance(lab, SqliteLab)
    return f"sqlite+aiosqlite:///{lab.path(name)}"


PEERS = "benchmarks.peers."
ENTRIES: Mapping[str, tuple[Entry, ...]] = {
    "postgres": (
        Entry("swath", f"{PEERS}swath_entry", "", EVERYTHING, "", _swath),
        Entry("swath, concurrency=1", f"{PEERS}swath_entry", "one", f"{EVERYTHING}, one of a lane at once", "", _swath),
        Entry(
            "PgQueuer", f"{PEERS}pgqueuer_entry", "", "batches, heartbeats, a log of what is done",
            "lanes, pacing by key, dedup, fences, checkpoint", _plain,
        ),
        Entry(
            "PgQueuer, dedupe_key", f"{PEERS}pgqueuer_entry", "dedupe", "the same, and a key waits once",
            "lanes, pacing by key, dedup of what is done, fences, checkpoint", _plain,
        ),
        Entry(
            "Procrastinate", f"{PEERS}procrastinate_entry", "", "heartbeats, a row and events for what is done",
            "lanes, pacing, dedup, fences, checkpoint, batches", _plain,
        ),
        Entry(
            "Procrastinate, locks", f"{PEERS}procrastinate_entry", "locks",
            "the same, one job of a lane at once (lock), a key waits once (queueing_lock)",
            "pacing by time, dedup of what is done, fences, checkpoint, batches", _plain,
        ),
        Entry(
            "Crawlee, SqlStorageClient", f"{PEERS}crawlee_entry", "",
            "keys once for ever, blocked for 300 s when fetched",
            "lanes, pacing, renewal, fences, checkpoint, batched settling", _sqlalchemy,
        ),
    ),
    "sqlite": (
        Entry("swath", f"{PEERS}swath_entry", "", EVERYTHING, "", _file("full")),
        Entry(
            "swath, concurrency=1", f"{PEERS}swath_entry", "one", f"{EVERYTHING}, one of a lane at once", "",
            _file("full"),
        ),
        Entry("swath, synchronous=normal", f"{PEERS}swath_entry", "", EVERYTHING, "", _file("normal")),
        Entry(
            "Crawlee, SqlStorageClient", f"{PEERS}crawlee_entry", "",
            "keys once for ever, blocked for 300 s when fetched; synchronous=normal",
            "lanes, pacing, renewal, fences, checkpoint, batched settling", _aiosqlite,
        ),
    ),
}  # fmt: skip


def measure(lab: Lab, settings: Settings, results: Results) -> None:
    failures = []
    for number, entry in enumerate(ENTRIES[lab.store]):
        try:
            figure = _contest(lab, entry, f"contest_{number}", settings)
        except ChildFailed as error:
            failures.append(entry.name)
            say(f"peers, {lab.store}, {entry.name} FAILED: {error}")
            continue
        results.add(figure)
        say(
            f"peers, {lab.store}, {entry.name}: {figure['added_per_s']:,.0f} added/s, "
            f"{figure['worked_per_s']:,.0f} worked off/s; {figure['bytes_ready']:,.0f} bytes an item ready, "
            f"{_bytes(figure['bytes_done'])} done"
        )
    if failures:
        raise RuntimeError(f"no figures for {', '.join(failures)}")


def _contest(lab: Lab, entry: Entry, name: str, settings: Settings) -> Figure:
    limit = LIMIT_FACTOR * settings.seconds
    _make(lab, name)
    try:
        with Child(contend) as child:
            child.send(Task(entry.module, entry.address(lab, name), entry.variant, settings.peer_items, limit))
            added: Took = child.receive(timeout=ADD_SECONDS)
            ready = _size(lab, name)
            child.send("work")
            worked: Took = child.receive(timeout=limit + GRACE_SECONDS)
            done = _size(lab, name)
            child.send("end")
        whole = worked.items >= added.items
        return {
            "name": entry.name,
            "does": entry.does,
            "lacks": entry.lacks,
            "items": added.items,
            "added_per_s": added.items / added.seconds,
            "worked": worked.items,
            "worked_per_s": worked.items / worked.seconds,
            "finished": whole,
            "bytes_ready": ready / added.items,
            "bytes_done": done / added.items if whole else None,
            "bytes_done_vacuumed": _vacuum_and_measure(lab, name) / added.items if whole else None,
        }
    finally:
        _drop(lab, name)


def _make(lab: Lab, name: str) -> None:
    _drop(lab, name)
    if isinstance(lab, PostgresLab):
        lab.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


def _drop(lab: Lab, name: str) -> None:
    if isinstance(lab, PostgresLab):
        lab.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
    else:
        lab.drop(name)


def _size(lab: Lab, name: str) -> int:
    """Return the bytes of all tables and indexes, including dead rows."""
    if isinstance(lab, SqliteLab):
        with closing(sqlite3.connect(lab.path(name))) as connection:
            connection.execute(
                "PRAGMA wal_checkpoint(TRUNCATE)"
            )  # otherwise a log of 32 MB would distort the bytes per item
        return file_bytes(lab.path(name))
    assert isinstance(lab, PostgresLab)
    with psycopg.connect(lab.server.dsn(name)) as connection:
        row = connection.execute(
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class AS c "
            "WHERE c.relkind = 'r' AND c.relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema')"
        ).fetchone()
    return int(row[0] or 0) if row else 0


def _vacuum_and_measure(lab: Lab, name: str) -> int:
    """Return the bytes after a vacuum, without dead rows."""
    if isinstance(lab, SqliteLab):
        with closing(sqlite3.connect(lab.path(name), isolation_level=None)) as connection:
            connection.execute("VACUUM")
    elif isinstance(lab, PostgresLab):
        lab.execute(sql.SQL("VACUUM FULL"), dbname=name)
    return _size(lab, name)


def _bytes(value: float | None) -> str:
    return "not all" if value is None else f"{value:,.0f}"
