"""open(url) -> Frontier: the only place that picks a backend."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from swath.backends.memory import MemoryStore
from swath.core import codec
from swath.core.clock import Clock
from swath.core.errors import InvalidSetting, InvalidStoreURL, MissingExtra
from swath.core.events import Observer
from swath.core.redact import mask_password
from swath.core.status import StoreInfo
from swath.core.store import Settings, Store
from swath.frontier import Frontier

EXAMPLES = "sqlite:///work.db, postgresql://user@host/database (either with ?schema=name) or memory:"
PARTITIONS = {"memory": 1, "sqlite": 1, "postgresql": 64}  # one writer needs no more than one


def open(
    url: str,
    *,
    partitions: int | None = None,
    min_interval: float | None = None,
    concurrency: int | None = None,
    max_attempts: int | None = None,
    create: bool = True,
    observer: Observer | None = None,
    worker: str | None = None,
    clock: Clock | None = None,
) -> "Opening":
    """Open the frontier at `url` and create it if it is not there: `async with swath.open(url) as frontier`.

    `partitions` is fixed from then on; `min_interval`, `concurrency` and `max_attempts` are its defaults, and are
    changed when given for a frontier that exists. `clock` is for tests: it takes the place of the store's.
    """
    if partitions is not None:
        codec.check_partitions(partitions)
    if worker is not None:
        codec.check_worker(worker)
    changes = codec.check_settings(min_interval, concurrency, max_attempts)
    return Opening(StoreURL.parse(url), partitions, changes, create, observer, worker, clock)


@dataclass(frozen=True, slots=True)
class StoreURL:
    """A store URL, taken apart."""

    url: str
    backend: str
    path: str
    query: Mapping[str, str]

    @classmethod
    def parse(cls, url: str) -> "StoreURL":
        if not isinstance(url, str):
            raise InvalidStoreURL(f"{mask_password(repr(url))} is a {type(url).__name__} and no URL: use {EXAMPLES}")
        shown = mask_password(url)
        try:
            parts = urlsplit(url)
        except ValueError:  # which may quote the password
            raise InvalidStoreURL(f"{shown!r} is no URL: use {EXAMPLES}") from None
        match parts.scheme:
            case "memory":
                return cls(url, "memory", "", {})
            case "sqlite":
                if parts.netloc:
                    host = parts.netloc.rpartition("@")[2]
                    raise InvalidStoreURL(
                        f"{shown!r} names a host ({host!r}): a file has three slashes, "
                        f"sqlite:///{host}{parts.path}, or four from the root, sqlite:////var/…"
                    )
                if parts.fragment:
                    raise InvalidStoreURL(f"{shown!r} has a #, which ends the name of the file there: write it as %23")
                path = unquote(parts.path.removeprefix("/"), errors="surrogateescape")  # as Python has names of files
                if not path:
                    raise InvalidStoreURL(f"{shown!r} names no file: use sqlite:///work.db, or memory: for none")
                return cls(url, "sqlite", path, _query(shown, parts.query, {"schema", "synchronous"}))
            case "postgresql" | "postgres":
                return cls(url, "postgresql", "", dict(parse_qsl(parts.query)))
            case _:
                raise InvalidStoreURL(f"{shown!r} names no store that swath knows: use {EXAMPLES}")


def _query(shown: str, query: str, known: set[str]) -> dict[str, str]:
    given = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := given.keys() - known:
        raise InvalidStoreURL(
            f"{shown!r}: {', '.join(sorted(unknown))} is not known here; {', '.join(sorted(known))} is"
        )
    return given


class Opening:
    """A frontier about to be opened: enter it with `async with`, or await it and close it yourself."""

    def __init__(
        self,
        url: StoreURL,
        partitions: int | None,
        changes: dict[str, int],
        create: bool,
        observer: Observer | None,
        worker: str | None,
        clock: Clock | None,
    ) -> None:
        self._url = url
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
        settings = Settings(partitions=self._partitions or PARTITIONS[self._url.backend], **self._changes)
        store = await self._store(settings)
        stored = store.settings
        if self._partitions not in (None, stored.partitions):
            await store.close()
            raise InvalidSetting(
                f"partitions={self._partitions}: {mask_password(self._url.url)} was created with "
                f"{stored.partitions}, which is fixed. Leave the argument out, or open another store"
            )
        frontier = Frontier(store, observer=self._observer, worker=self._worker)
        if any(getattr(stored, name) != value for name, value in self._changes.items()):
            try:
                await frontier._change_settings(self._changes)
            except BaseException:
                await store.close()  # nobody else can
                raise
        return frontier

    async def _store(self, settings: Settings) -> Store:
        match self._url.backend:
            case "memory":
                return MemoryStore(settings, clock=self._clock)
            case "sqlite":
                from swath.backends.sqlite import SqliteStore

                return await SqliteStore.open(
                    self._url.path,
                    schema=self._url.query.get("schema"),
                    settings=settings,
                    create=self._create,
                    clock=self._clock,
                    synchronous=self._url.query.get("synchronous", "full"),
                )
            case _:
                with _needs_psycopg():
                    from swath.backends.postgres import PostgresStore

                return await PostgresStore.open(
                    self._url.url, settings=settings, create=self._create, clock=self._clock
                )


@contextmanager
def _needs_psycopg() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise MissingExtra("PostgreSQL needs psycopg: pip install 'swath[postgres]'") from error


async def migrate(url: str) -> Sequence[str]:
    """Bring a store up to this version's format; return the names of the migrations that were applied."""
    target = StoreURL.parse(url)
    match target.backend:
        case "memory":
            return []
        case "sqlite":
            from swath.backends.sqlite import migrate as migrate_sqlite

            return await migrate_sqlite(target.path, schema=target.query.get("schema"))
        case _:
            with _needs_psycopg():
                from swath.backends.postgres import migrate as migrate_postgres

            return await migrate_postgres(target.url)


async def describe(url: str) -> StoreInfo:
    """Describe a store that this version of swath can open: its backend, format and size."""
    target = StoreURL.parse(url)
    match target.backend:
        case "memory":
            return StoreInfo("memory", 0, 0)
        case "sqlite":
            from swath.backends.sqlite.describe import describe as describe_sqlite

            return describe_sqlite(target.path)
        case _:
            with _needs_psycopg():
                from swath.backends.postgres.describe import describe as describe_postgres

            return await describe_postgres(url)
