"""Open a frontier by URL. The scheme of the URL names the backend; other packages add backends as entry points."""

import asyncio
import difflib
import inspect
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib.metadata import entry_points
from types import TracebackType
from typing import Any, ParamSpec, Protocol, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from swath.backends.memory import MemoryStore
from swath.core.clock import Clock
from swath.core.errors import InvalidSetting, InvalidStoreURL, MissingExtra, UsageError
from swath.core.events import Observer
from swath.core.item import UNCHANGED, Unchanged
from swath.core.problem import Problem
from swath.core.redact import mask_password
from swath.core.status import StoreInfo
from swath.core.store import Settings, Store
from swath.core.validation import check_partitions, check_settings, check_worker
from swath.frontier import Frontier

ENTRY_POINTS = "swath.backends"  # the group; the name of an entry point is the URL scheme
EXAMPLES = "sqlite:///work.db, postgresql://user@host/database (either with ?schema=name) or memory:"

P = ParamSpec("P")
T = TypeVar("T")


class Backend(Protocol):
    """Opens the stores of one URL scheme."""

    default_partitions: int  # for a new store, unless the caller passes `partitions`

    def check(self, url: "StoreURL") -> None:
        """Raise InvalidStoreURL if the URL is invalid. Called before anything is opened."""
        ...

    async def open(self, url: "StoreURL", *, settings: Settings, create: bool, clock: Clock | None) -> Store:
        """Open the store, and create it with `settings` if it does not exist and `create` is true.

        `clock` replaces the store's own clock in tests.
        """
        ...

    async def migrate(self, url: "StoreURL") -> Sequence[str]:
        """Upgrade the store to the present format, and return the names of the migrations that were applied."""
        ...

    async def describe(self, url: "StoreURL") -> StoreInfo:
        """Return the format and the size of an existing store."""
        ...

    async def delete(self, url: "StoreURL") -> None:
        """Delete the frontier and nothing else. Raise NotAFrontier if there is none, and StoreUnavailable while a
        worker holds items of it."""
        ...

    # A backend whose databases hold several frontiers may also have
    #     async def list_frontiers(self, url: "StoreURL") -> Sequence[str]
    # A backend that can tell what is wrong with its database may also have
    #     async def examine(self, url: "StoreURL") -> Sequence[Problem]


@dataclass(frozen=True, slots=True)
class StoreURL:
    """A store URL and its parts. `path` is decoded and has no leading slash."""

    url: str
    scheme: str
    host: str
    path: str
    query: Mapping[str, str]

    @classmethod
    def parse(cls, url: str) -> "StoreURL":
        """Parse a URL and check it with its backend; raise InvalidStoreURL if no store can have this URL."""
        parsed = cls._split(url)
        find_backend(parsed).check(parsed)
        return parsed

    @classmethod
    def _split(cls, url: object) -> "StoreURL":
        if not isinstance(url, str):
            raise InvalidStoreURL(
                f"{mask_password(repr(url))} is of type {type(url).__name__}, not a URL: use {EXAMPLES}"
            )
        try:
            parts = urlsplit(url)
        except ValueError:  # drop its message, which may quote the password
            raise InvalidStoreURL(f"{mask_password(url)!r} is not a URL: use {EXAMPLES}") from None
        # A file name may hold any bytes; surrogateescape is how Python represents them.
        path = unquote(parts.path.removeprefix("/"), errors="surrogateescape")
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        scheme = {"postgres": "postgresql"}.get(parts.scheme, parts.scheme)
        return cls(url, scheme, parts.netloc.rpartition("@")[2], path, query)

    @property
    def masked(self) -> str:
        """The URL with `***` in place of passwords, for messages."""
        return mask_password(self.url)

    def check_query(self, known: Iterable[str]) -> None:
        """Raise InvalidStoreURL if the query has an unknown parameter."""
        known = sorted(known)
        for name in self.query:
            if name not in known:
                allowed = f"use {', '.join(known)}" if known else "this store takes none"
                raise InvalidStoreURL(f"{self.masked!r}: unknown parameter {name!r}{_suggest(name, known)}; {allowed}")


class _MemoryBackend:
    """A frontier in this process's memory."""

    default_partitions = 1

    def check(self, url: StoreURL) -> None:
        pass

    async def open(self, url: StoreURL, *, settings: Settings, create: bool, clock: Clock | None) -> Store:
        return MemoryStore(settings, clock=clock)

    async def migrate(self, url: StoreURL) -> Sequence[str]:
        return []

    async def describe(self, url: StoreURL) -> StoreInfo:
        return StoreInfo("memory", 0, 0)

    async def delete(self, url: StoreURL) -> None:
        raise UsageError("a frontier in memory ends with its process: close it instead")


class _SqliteBackend:
    """A frontier in a SQLite file."""

    default_partitions = 1  # SQLite has a single writer, so more partitions would not help

    def check(self, url: StoreURL) -> None:
        if url.host:
            path = f"{url.host}/{url.path}".rstrip("/")
            raise InvalidStoreURL(
                f"{url.masked!r} names a host ({url.host!r}): write three slashes before a relative path, "
                f"sqlite:///{path}, or four before an absolute one, sqlite:////var/…"
            )
        if "#" in url.url:
            raise InvalidStoreURL(f"{url.masked!r} contains #, which ends the path of a URL: write %23 instead")
        if not url.path:
            raise InvalidStoreURL(
                f"{url.masked!r} does not name a file: use sqlite:///work.db, or memory: for a frontier without one"
            )
        url.check_query({"schema", "synchronous"})

    async def open(self, url: StoreURL, *, settings: Settings, create: bool, clock: Clock | None) -> Store:
        from swath.backends.sqlite import SqliteStore

        return await SqliteStore.open(
            url.path,
            schema=url.query.get("schema"),
            settings=settings,
            create=create,
            clock=clock,
            synchronous=url.query.get("synchronous", "full"),
        )

    async def migrate(self, url: StoreURL) -> Sequence[str]:
        from swath.backends.sqlite import migrate

        return await migrate(url.path, schema=url.query.get("schema"))

    async def describe(self, url: StoreURL) -> StoreInfo:
        from swath.backends.sqlite.describe import describe

        return describe(url.path)

    async def list_frontiers(self, url: StoreURL) -> Sequence[str]:
        from swath.backends.sqlite.list_frontiers import list_frontiers

        return list_frontiers(url.url, url.path)

    async def delete(self, url: StoreURL) -> None:
        from swath.backends.sqlite.delete import delete

        await asyncio.to_thread(delete, url.path, schema=url.query.get("schema"))


class _PostgresBackend:
    """A frontier in a schema of a PostgreSQL database."""

    default_partitions = 64

    def check(self, url: StoreURL) -> None:
        pass  # libpq checks the URL when the store is opened

    async def open(self, url: StoreURL, *, settings: Settings, create: bool, clock: Clock | None) -> Store:
        with _require_psycopg():
            from swath.backends.postgres import PostgresStore

        return await PostgresStore.open(url.url, settings=settings, create=create, clock=clock)

    async def migrate(self, url: StoreURL) -> Sequence[str]:
        with _require_psycopg():
            from swath.backends.postgres import migrate

        return await migrate(url.url)

    async def describe(self, url: StoreURL) -> StoreInfo:
        with _require_psycopg():
            from swath.backends.postgres.describe import describe

        return await describe(url.url)

    async def list_frontiers(self, url: StoreURL) -> Sequence[str]:
        with _require_psycopg():
            from swath.backends.postgres.list_frontiers import list_frontiers

        return await list_frontiers(url.url)

    async def delete(self, url: StoreURL) -> None:
        with _require_psycopg():
            from swath.backends.postgres.delete import delete

        await delete(url.url)

    async def examine(self, url: StoreURL) -> Sequence[Problem]:
        with _require_psycopg():
            from swath.backends.postgres.examine import examine

        return await examine(url.url)


@contextmanager
def _require_psycopg() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise MissingExtra("PostgreSQL needs psycopg: pip install 'swath[postgres]'") from error


BUILT_IN: Mapping[str, Backend] = {
    "memory": _MemoryBackend(),
    "postgresql": _PostgresBackend(),
    "sqlite": _SqliteBackend(),
}


def find_backend(url: StoreURL) -> Backend:
    """Return the backend for the scheme of a URL."""
    if (built_in := BUILT_IN.get(url.scheme)) is not None:
        return built_in
    installed = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if (entry := installed.get(url.scheme)) is None:
        if not url.scheme:
            raise InvalidStoreURL(f"{url.masked!r} has no scheme, such as sqlite: use {EXAMPLES}")
        known = sorted({*BUILT_IN, *installed})
        raise InvalidStoreURL(
            f"{url.masked!r}: no backend for the scheme {url.scheme!r}{_suggest(url.scheme, known)}. "
            f"The known schemes are {', '.join(known)}; for example {EXAMPLES}"
        )
    try:
        loaded = entry.load()
    except Exception as error:  # importing another package runs its code
        raise MissingExtra(
            f"{url.masked!r}: the backend {entry.value} of the scheme {url.scheme!r} cannot be imported: {error}"
        ) from error
    backend: Backend = loaded() if isinstance(loaded, type) else loaded
    return backend


def _suggest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def suggest_options(function: Callable[P, T]) -> Callable[P, T]:
    """Raise UsageError for an unknown keyword argument, and suggest the nearest known one."""
    known = inspect.signature(function).parameters

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            if name not in known:
                raise InvalidSetting(
                    f"{function.__name__}() has no argument {name!r}{_suggest(name, known)}: use {', '.join(known)}"
                )
        return function(*args, **kwargs)

    return wrapper


@suggest_options
def open(
    url: str | None = None,
    *,
    store: Store | None = None,
    partitions: int | None = None,
    min_interval: float | None = None,
    concurrency: int | Unchanged | None = UNCHANGED,
    max_attempts: int | None = None,
    create: bool = True,
    observer: Observer | None = None,
    worker: str | None = None,
    clock: Clock | None = None,
) -> "Opening":
    """Open the frontier at `url`, and create it if it does not exist: `async with swath.open(url) as frontier`.

    Pass `store` instead of a URL to use a Store that you have opened; closing the frontier closes it.

    `partitions` is fixed when the frontier is created. `min_interval`, `concurrency` (None: unlimited) and
    `max_attempts` are the defaults of the frontier; if it exists already, the ones that you pass replace the old ones.
    `create=False` raises NotAFrontier if the frontier does not exist. `observer` receives every event, and `worker`
    is the name that claims carry. `clock` replaces the store's clock in tests.
    """
    if partitions is not None:
        check_partitions(partitions)
    if worker is not None:
        check_worker(worker)
    changes = check_settings(min_interval, concurrency, max_attempts)
    source: StoreURL | Store
    if store is None:
        source = StoreURL.parse(url)  # type: ignore[arg-type]  # raises if it is None
    elif url is None and clock is None:
        source = store
    else:
        raise UsageError("open(store=…) takes neither a URL nor a clock: the store has its own")
    return Opening(source, partitions, changes, create, observer, worker, clock)


class Opening:
    """A frontier that is not open yet. Enter it with `async with`, or await it and call `close()` yourself."""

    def __init__(
        self,
        source: StoreURL | Store,
        partitions: int | None,
        changes: dict[str, int],
        create: bool,
        observer: Observer | None,
        worker: str | None,
        clock: Clock | None,
    ) -> None:
        self._source = source
        self._partitions = partitions
        self._changes = changes
        self._create = create
        self._observer = observer
        self._worker = worker
        self._clock = clock
        self._frontier: Frontier | None = None

    def __await__(self) -> Generator[Any, None, Frontier]:
        return self._open().__await__()

    async def __aenter__(self) -> Frontier:
        self._frontier = await self._open()
        return self._frontier

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._frontier is not None:
            await self._frontier.close()

    async def _open(self) -> Frontier:
        store, name = await self._open_store()
        kept = store.settings
        try:
            if self._partitions not in (None, kept.partitions):
                raise InvalidSetting(
                    f"partitions={self._partitions}: {name} was created with {kept.partitions} partitions, and their "
                    "number is fixed. Leave the argument out, or open another store"
                )
            frontier = Frontier(store, observer=self._observer, worker=self._worker)
            if any(getattr(kept, setting) != value for setting, value in self._changes.items()):
                await frontier._change_settings(self._changes)
        except BaseException:
            await store.close()
            raise
        return frontier

    async def _open_store(self) -> tuple[Store, str]:
        """Return the store and its name for messages."""
        if not isinstance(self._source, StoreURL):
            return self._source, "this store"
        backend = find_backend(self._source)
        settings = Settings(partitions=self._partitions or backend.default_partitions, **self._changes)
        store = await backend.open(self._source, settings=settings, create=self._create, clock=self._clock)
        return store, self._source.masked


async def migrate(url: str) -> Sequence[str]:
    """Upgrade a store to the format of this version, and return the names of the migrations that were applied."""
    parsed = StoreURL.parse(url)
    return await find_backend(parsed).migrate(parsed)


async def describe(url: str) -> StoreInfo:
    """Return the backend, the format and the size of a store that this version of swath can open."""
    parsed = StoreURL.parse(url)
    return await find_backend(parsed).describe(parsed)


async def list_frontiers(url: str) -> Sequence[str]:
    """Return the URLs of all frontiers in the database that a URL names, whatever schema it names.

    Creates nothing. The URLs have the password of `url`: print them with `mask_password`.
    """
    parsed = StoreURL.parse(url)
    list_all = getattr(find_backend(parsed), "list_frontiers", None)
    return [url] if list_all is None else list(await list_all(parsed))


async def examine(url: str) -> Sequence[Problem]:
    """Return what is wrong with the database of a frontier, such as autovacuum that is off or missing privileges.

    Changes nothing, and does not need a frontier of this version. `swath doctor` looks at more than the database.
    """
    parsed = StoreURL.parse(url)
    examine_database = getattr(find_backend(parsed), "examine", None)
    return [] if examine_database is None else list(await examine_database(parsed))


async def delete(url: str) -> None:
    """Delete the frontier at `url` with all of its items, facts and counters.

    Tables that are not swath's stay. Raise NotAFrontier if there is no frontier, and StoreUnavailable if a worker holds
    items of it, or has the SQLite file open.
    """
    parsed = StoreURL.parse(url)
    await find_backend(parsed).delete(parsed)
