"""How each store is made for a test, and opened again."""

import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

from swath.backends.memory import MemoryStore
from swath.backends.postgres import PostgresStore
from swath.backends.sqlite import SqliteStore
from swath.core.clock import Clock
from swath.core.store import Settings, Store
from tests.conftest import Server, fresh_database

ALL = ("memory", "sqlite", "postgres")
DURABLE = ("sqlite", "postgres")
BESIDE = "schema"  # SQLite again, in a file with other frontiers and other tables


FRONTIERS_IN_A_FILE = 5


class Backend(Protocol):
    name: str

    async def make(self, settings: Settings, clock: Clock) -> Store:
        """A new, empty frontier."""
        ...

    async def open_again(self, store: Store, clock: Clock) -> Store:
        """Another handle on the same frontier."""
        ...


class Memory:
    name = "memory"

    async def make(self, settings: Settings, clock: Clock) -> Store:
        return MemoryStore(settings, clock=clock)

    async def open_again(self, store: Store, clock: Clock) -> Store:
        raise NotImplementedError("a frontier in memory has one handle")


class Sqlite:
    """A file each. Nothing here has to survive a power cut."""

    name = "sqlite"

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def make(self, settings: Settings, clock: Clock) -> Store:
        path = self._directory / f"{secrets.token_hex(6)}.db"
        return await SqliteStore.open(str(path), settings=settings, create=True, clock=clock, synchronous="normal")

    async def open_again(self, store: Store, clock: Clock) -> Store:
        assert isinstance(store, SqliteStore)
        return await SqliteStore.open(store.path, create=False, clock=clock, synchronous="normal")


class Beside:
    """Frontiers with a schema each, several in a file, beside a table that is not swath's."""

    name = "schema"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._made = 0

    async def make(self, settings: Settings, clock: Clock) -> Store:
        number, place = divmod(self._made, FRONTIERS_IN_A_FILE)
        self._made += 1
        path = self._directory / f"{number}.db"
        if place == 0:
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("CREATE TABLE item (mine TEXT)")
        return await SqliteStore.open(
            str(path), schema=f"frontier_{place}", settings=settings, clock=clock, synchronous="normal"
        )

    async def open_again(self, store: Store, clock: Clock) -> Store:
        raise NotImplementedError("the tests of durability run on files of their own")


class Postgres:
    """A schema each, in one database."""

    name = "postgres"

    def __init__(self, url: str) -> None:
        self._url = url
        self._schemas: dict[int, str] = {}

    async def make(self, settings: Settings, clock: Clock) -> Store:
        url = f"{self._url}&schema=s{secrets.token_hex(6)}"
        store = await PostgresStore.open(url, settings=settings, clock=clock)
        self._schemas[id(store)] = url
        return store

    async def open_again(self, store: Store, clock: Clock) -> Store:
        url = self._schemas[id(store)]
        again = await PostgresStore.open(url, create=False, clock=clock)
        self._schemas[id(again)] = url
        return again


@contextmanager
def backend_named(name: str, *, directory: Path, server: Callable[[], Server]) -> Iterator[Backend]:
    """Start what the backend needs while it is used. The PostgreSQL server is started only if a test needs it."""
    match name:
        case "memory":
            yield Memory()
        case "sqlite":
            yield Sqlite(directory)
        case "schema":
            yield Beside(directory)
        case "postgres":
            with fresh_database(server()) as url:
                yield Postgres(url if "?" in url else f"{url}?")
        case _:
            raise ValueError(f"no backend is named {name!r}")
