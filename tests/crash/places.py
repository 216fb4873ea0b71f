"""Where the frontier of a crash test is kept, and what is really in it."""

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psycopg

import swath
from swath import Opening
from swath.backends.postgres.location import PostgresLocation
from tests.crash.workload import DEFAULT_CONCURRENCY

DONE = "SELECT key, result, settled_at FROM {s}done"
DEAD = "SELECT key, reason, settled_at FROM {s}dead"


class Row(NamedTuple):
    """A settled item, as its row says."""

    key: str
    settled_at: int
    fence: int | None  # of the claim whose result it is; None where it is dead or was dropped
    worker: str | None
    reason: str | None  # of a dead one
    dropped: str | None = None  # by whom


@dataclass(frozen=True, slots=True)
class Place:
    url: str
    partitions: int

    def open(self, *, max_attempts: int = 5) -> Opening:
        return swath.open(
            self.url, partitions=self.partitions, concurrency=DEFAULT_CONCURRENCY, max_attempts=max_attempts
        )

    def rows(self) -> list[Row]:
        """All that is done or dead, read behind the store's back."""
        done, dead = self._read(DONE), self._read(DEAD)
        return [
            *(
                Row(key, at, result.get("fence"), result.get("worker"), None, result.get("dropped"))
                for key, text, at in done
                for result in (json.loads(text),)
            ),
            *(Row(key, at, None, None, reason) for key, reason, at in dead),
        ]

    def _read(self, statement: str) -> list[tuple[str, str, int]]:
        if self.url.startswith("sqlite:///"):
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"))) as connection:
                return connection.execute(statement.format(s="swath_")).fetchall()
        target = PostgresLocation.parse(self.url)
        with psycopg.connect(target.dsn) as session:
            return session.execute(target.fill(statement.replace("{s}", "{schema}."))).fetchall()


def sqlite_place(directory: Path, *, partitions: int = 3) -> Place:
    return Place(f"sqlite:///{directory / 'frontier.db'}", partitions)


def postgres_place(url: str, *, partitions: int = 8) -> Place:
    return Place(f"{url}{'&' if '?' in url else '?'}schema=crash", partitions)
