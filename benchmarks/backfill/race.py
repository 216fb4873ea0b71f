"""The contestants: each changes every row of a fresh copy of the same table, on one server."""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.backfill.ours import CHANGE
from benchmarks.backfill.settings import TARGET_SECONDS, Settings
from benchmarks.backfill.watch import Watch
from benchmarks.crawl.tree import cpu_seconds, run
from benchmarks.results import Figure
from tests.postgres_server import PostgresServer

TABLE = "users"
TIMEOUT = 3_600.0
ROOT = Path(__file__).parents[2]

Work = Callable[[], dict[str, Any]]


class WrongResult(RuntimeError):
    """A contestant that left rows unchanged."""


class Race:
    """One server, and a table that is made anew for everyone."""

    def __init__(self, server: PostgresServer, settings: Settings) -> None:
        self._server = server
        self._dsn = server.dsn()
        self._settings = settings

    def figure(self, part: str) -> Figure:
        """What one contestant took. WAL is counted from its first statement to its last."""
        name, work = self._contestant(part)
        self._prepare()
        before, cpu = self._wal(), cpu_seconds(self._server.pid)
        with Watch(self._dsn) as watch:
            did = work()
        written, used = self._wal() - before, cpu_seconds(self._server.pid) - cpu
        self._check()
        return {
            "name": name,
            "rows": self._settings.rows,
            "longest_lock_seconds": watch.longest,
            "wal_bytes": written,
            "server_cpu_seconds": used,
            **did,
        }

    def _contestant(self, part: str) -> tuple[str, Work]:
        if part == "update":
            return "one UPDATE", self._update
        if part == "loop":
            return f"hand-written loop, {self._settings.batch:,} rows a transaction", self._loop
        workers = int(part.removeprefix("swath-"))
        plural = "s" if workers > 1 else ""
        return f"swath, {workers} worker{plural}", lambda: self._swath(workers)

    def _update(self) -> dict[str, Any]:
        with psycopg.connect(self._dsn) as connection:
            began = time.perf_counter()
            connection.execute(f"UPDATE {TABLE} SET {CHANGE}".encode())
            connection.commit()
            return {"seconds": time.perf_counter() - began, "transactions": 1}

    def _loop(self) -> dict[str, Any]:
        """What one writes by hand: the next so many keys, one UPDATE between them, one transaction."""
        after, batches = 0, 0
        with psycopg.connect(self._dsn) as connection:
            began = time.perf_counter()
            while True:
                (last,) = connection.execute(
                    f"SELECT max(id) FROM (SELECT id FROM {TABLE} WHERE id > %s ORDER BY id LIMIT %s) AS s".encode(),
                    (after, self._settings.batch),
                ).fetchone() or (None,)
                if last is None:
                    break
                statement = f"UPDATE {TABLE} SET {CHANGE} WHERE id > %s AND id <= %s"
                connection.execute(statement.encode(), (after, last))
                connection.commit()
                after, batches = last, batches + 1
            return {"seconds": time.perf_counter() - began, "transactions": batches}

    def _swath(self, workers: int) -> dict[str, Any]:
        command = [
            sys.executable, "-m", "benchmarks.backfill.ours", self._dsn, TABLE, str(workers), str(TARGET_SECONDS),
        ]  # fmt: skip
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        environment = {**os.environ, "PYTHONPATH": paths}
        with tempfile.TemporaryDirectory(prefix="swath-bench-backfill-") as directory:
            used = run(command, environment=environment, cwd=Path(directory), timeout=TIMEOUT, codes={0})
        told = json.loads(used.output.splitlines()[-1])
        return {
            "seconds": told["seconds"],
            "transactions": told["slices"],
            "client_cpu_seconds": used.cpu_seconds,
            "longest_slice_seconds": told["longest"],
            "overruns": sum(told["overruns"].values()),
        }

    def _prepare(self) -> None:
        """The table as it was, vacuumed and analysed, and nothing left to write for the server."""
        rows = self._settings.rows
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            for statement in (
                f"DROP TABLE IF EXISTS {TABLE}",
                "DROP SCHEMA IF EXISTS swath_bench CASCADE",
                f"CREATE TABLE {TABLE} (id bigint PRIMARY KEY, email text NOT NULL, name text, email_lower text)",
                f"INSERT INTO {TABLE} SELECT g, 'User' || g || '@Web.COM', 'n' || g FROM generate_series(1, {rows}) g",
                f"VACUUM ANALYZE {TABLE}",
                "CHECKPOINT",
            ):
                connection.execute(statement.encode())

    def _wal(self) -> int:
        with psycopg.connect(self._dsn) as connection:
            row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
            assert row is not None
            return int(row[0])

    def _check(self) -> None:
        with psycopg.connect(self._dsn) as connection:
            row = connection.execute(
                f"SELECT count(*), count(*) FILTER (WHERE email_lower = lower(email)) FROM {TABLE}".encode()
            ).fetchone()
        if row != (self._settings.rows, self._settings.rows):
            raise WrongResult(f"{row} rows and changed rows of {self._settings.rows:,}")
