"""The stores under test: their URLs, and how to load, block, drop and measure their frontiers."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import psycopg
from psycopg import sql

from benchmarks import loading_postgres, loading_sqlite, machine
from benchmarks.progress import say
from benchmarks.settings import Settings
from tests.postgres_server import PostgresServer

PARTITIONS = {"sqlite": 1, "postgres": 64}  # swath's own defaults


class Lab(Protocol):
    """A store that holds frontiers by name."""

    store: str

    def url(self, name: str) -> str: ...

    def load(self, name: str, *, items: int, partitions: int) -> int:
        """Create a frontier with this number of ready items, in lanes of ITEMS_PER_LANE, and return the number."""
        ...

    def block(self, name: str, *, lanes_of_ten: int) -> None: ...

    def drop(self, name: str) -> None: ...

    def settings(self) -> Mapping[str, str]: ...


class SqliteLab:
    """SQLite files in a directory on the local disk."""

    store = "sqlite"

    def __init__(self, directory: Path, *, synchronous: str = "full") -> None:
        self.directory = directory
        self.synchronous = synchronous

    def path(self, name: str) -> Path:
        return self.directory / f"{name}.db"

    def url(self, name: str) -> str:
        return f"sqlite:///{self.path(name)}?synchronous={self.synchronous}"

    def load(self, name: str, *, items: int, partitions: int) -> int:
        self.drop(name)
        say(f"sqlite: loading {items:,} items")
        return loading_sqlite.load(str(self.path(name)), self.url(name), items=items, partitions=partitions)

    def block(self, name: str, *, lanes_of_ten: int) -> None:
        loading_sqlite.block(str(self.path(name)), lanes_of_ten=lanes_of_ten)

    def drop(self, name: str) -> None:
        for path in self.directory.glob(f"{name}.db*"):
            path.unlink()

    def settings(self) -> Mapping[str, str]:
        return machine.describe_sqlite(self.synchronous)


class PostgresLab:
    """Schemas in one database. Peers get databases of their own on the same server."""

    store = "postgres"

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.dsn = server.dsn()

    def url(self, name: str) -> str:
        return f"{self.dsn}&schema={name}"

    def load(self, name: str, *, items: int, partitions: int) -> int:
        self.drop(name)
        say(f"postgres: loading {items:,} items")
        return loading_postgres.load(self.dsn, self.url(name), name, items=items, partitions=partitions)

    def block(self, name: str, *, lanes_of_ten: int) -> None:
        loading_postgres.block(self.dsn, name, lanes_of_ten=lanes_of_ten)

    def drop(self, name: str) -> None:
        self.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))

    def settings(self) -> Mapping[str, str]:
        return machine.describe_postgres(self.dsn)

    def execute(self, statement: sql.Composed | sql.SQL, *, dbname: str = "postgres") -> None:
        with psycopg.connect(self.server.dsn(dbname), autocommit=True) as connection:
            connection.execute(statement)

    @contextmanager
    def pin_snapshot(self) -> Iterator[None]:
        """Hold a snapshot open, so that PostgreSQL cannot remove the rows that die in the meantime."""
        with psycopg.connect(self.dsn) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            connection.execute("SELECT count(*) FROM pg_class")
            yield
            connection.rollback()


@contextmanager
def open_labs(settings: Settings) -> Iterator[Mapping[str, Lab]]:
    """Start the selected stores, and remove their files at the end."""
    directory = Path(tempfile.mkdtemp(prefix="swath-bench-"))
    server: PostgresServer | None = None
    try:
        found: dict[str, Lab] = {}
        if "sqlite" in settings.stores:
            found["sqlite"] = SqliteLab(directory)
        if "postgres" in settings.stores:
            server = PostgresServer(settings=dict(settings.postgres))
            server.start()
            say(f"PostgreSQL {server.version} runs in {server.directory}")
            found["postgres"] = PostgresLab(server)
        yield found
    finally:
        if server is not None:
            server.close()
        shutil.rmtree(directory, ignore_errors=True)


def file_bytes(path: Path) -> int:
    """Return the size of a SQLite database with its write-ahead log."""
    return sum(os.path.getsize(found) for found in (path, path.with_name(f"{path.name}-wal")) if found.exists())
