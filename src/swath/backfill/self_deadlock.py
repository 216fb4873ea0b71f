"""Recognise a handler of --run that waits for its own slice.

The transaction of a slice holds its locks until the handler returns. A handler that writes the same rows through a
database session of its own therefore waits forever. The database sees no deadlock: Python closes the circle.
"""

import asyncio
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Protocol

from swath import UsageError
from swath.backfill.driver_sessions import list_session_pids

LOOK_SECONDS = 0.25  # between looks at the locks while a handler runs
BIND = (
    "Write through the connection that the handler gets as its second argument. docs/howto/orm.md shows how to bind "
    "Django and SQLAlchemy to it"
)

# Every session that waits for a lock, and those that hold it. Every role may see them.
_LIST_WAITING = b"""
SELECT l.pid, pg_blocking_pids(l.pid), w.application_name = 'swath'
FROM (SELECT DISTINCT pid FROM pg_locks WHERE NOT granted) AS l JOIN pg_stat_activity AS w ON w.pid = l.pid
"""
_WRITES = (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE)


class SelfDeadlock(UsageError):
    """The handler waits for a lock that its own slice holds."""


class DeadlockWatcher(Protocol):
    """Watches handlers while they run. `failure` is set once one of them waits for itself."""

    failure: SelfDeadlock | None

    def watch(self, connection: Any) -> AbstractContextManager[None]:
        """Watch a handler that is called with this connection. If it waits for itself, raise `failure`."""
        ...

    def close(self) -> None: ...


class NoWatcher:
    """For operations that run no user code."""

    failure: SelfDeadlock | None = None

    def watch(self, connection: Any) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None: ...


class PostgresWatcher:
    """Looks at the server's locks, in a thread: an async handler that makes a blocking call stops the event loop.

    A handler may wait for the slice of another one, which will end. So the verdict is certain when no slice can end:
    as many sessions of this process wait for slices as handlers run, or the loop is stopped, twice in a row. Then the
    watcher cancels the statements that wait, because nothing else can end a thread that waits in a driver.
    """

    def __init__(self, connect: Callable[[], Any], *, on_failure: Callable[[], object]) -> None:
        """`connect` opens a session of swath's own. `on_failure` is called in the event loop."""
        self.failure: SelfDeadlock | None = None
        self._connect = connect
        self._on_failure = on_failure
        self._running: set[int] = set()  # server pids of the slices whose handlers run
        self._was_stuck = False
        self._loop = asyncio.get_running_loop()
        self._loop_runs = True  # whether it has answered since the look before
        self._changing = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watch(self, connection: Any) -> Iterator[None]:
        pid = connection.info.backend_pid
        with self._changing:
            self._running.add(pid)
            if self._thread is None:
                self._thread = threading.Thread(target=self._look_repeatedly, name="swath-deadlocks", daemon=True)
                self._thread.start()
        try:
            with _raise_instead(lambda: self.failure):
                yield
        finally:
            with self._changing:
                self._running.discard(pid)

    def close(self) -> None:
        self._closed.set()

    def _look_repeatedly(self) -> None:
        session: Any = None
        while not self._closed.wait(LOOK_SECONDS):
            if not self._running:
                self._was_stuck = False
                continue
            with suppress(Exception):  # the driver's errors: the server is away; the handlers notice that as well
                if session is None or session.closed:
                    session = self._connect()
                self._look(session)
        if session is not None:
            session.close()

    def _look(self, session: Any) -> None:
        with self._changing:
            running = frozenset(self._running)
        found = session.execute(_LIST_WAITING).fetchall()
        holders = {pid: held_by for pid, held_by, _ in found}
        suspects = {pid: holder for pid, _, swaths in found if not swaths and (holder := _trace(pid, holders, running))}
        own = list_session_pids() if suspects else set()
        waiting = {pid: holder for pid, holder in suspects.items() if pid in own}
        with self._changing:
            stuck = bool(waiting) and (len(waiting) >= len(self._running) or not self._loop_runs)
            certain, self._was_stuck = stuck and self._was_stuck, stuck
            self._loop_runs = False
        self._loop.call_soon_threadsafe(self._note_loop_runs)
        if not certain:
            return
        if self.failure is None:
            pid, holder = min(waiting.items())
            self.failure = SelfDeadlock(
                f"the handler waits for itself: its own database session (pid {pid}) waits for a lock of its slice's "
                f"transaction (pid {holder}), which ends after the handler returns. {BIND}"
            )
            self._loop.call_soon_threadsafe(self._on_failure)
        for pid in waiting:
            with suppress(Exception):  # not permitted for a session of another role
                session.execute("SELECT pg_cancel_backend(%s)", (pid,))

    def _note_loop_runs(self) -> None:
        self._loop_runs = True


def _trace(pid: int, holders: Mapping[int, Sequence[int]], wanted: Collection[int]) -> int | None:
    """Return which of the wanted sessions a session waits for, directly or through others."""
    seen, todo = {pid}, [pid]
    while todo:
        for holder in holders.get(todo.pop(), ()):
            if holder in wanted:
                return holder
            if holder not in seen:
                seen.add(holder)
                todo.append(holder)
    return None


class SqliteWatcher:
    """Refuses writes of other connections of this process to the table's file while a handler runs.

    SQLite has a single writer, and the slice's transaction is it: such a write would only wait until its timeout. What
    a connection is about to do is visible to its authorizer, so `sqlite3.connect` installs one until `close`.
    """

    def __init__(self, path: str, *, on_failure: Callable[[], object]) -> None:
        self.failure: SelfDeadlock | None = None
        self._path = os.path.realpath(path)
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._running = False
        self._connect = sqlite3.connect
        self._replace_connect(self._connect_watched)

    @contextmanager
    def watch(self, connection: Any) -> Iterator[None]:
        self._running = True
        try:
            with _raise_instead(lambda: self.failure):
                yield
        finally:
            self._running = False

    def close(self) -> None:
        self._replace_connect(self._connect)

    def _replace_connect(self, connect: Callable[..., sqlite3.Connection]) -> None:
        for module in (sqlite3, sqlite3.dbapi2):
            setattr(module, "connect", connect)  # noqa: B010  mypy sees no such attribute of a module

    def _connect_watched(self, *args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = self._connect(*args, **options)
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if not caller.startswith("swath."):
            _, _, path = sqlite3.Connection.execute(connection, "PRAGMA database_list").fetchone()
            if os.path.realpath(path) == self._path:
                connection.set_authorizer(self._authorize)
                connection.set_trace_callback(self._trace)
        return connection

    def _authorize(self, action: int, first: str | None, second: str | None, name: str | None, *_: object) -> int:
        if not self._running or action not in _WRITES or name != "main":
            return sqlite3.SQLITE_OK
        self._fail("writes to")
        return sqlite3.SQLITE_DENY

    def _trace(self, statement: str) -> None:
        """Notice a BEGIN that takes the write lock. The authorizer sees only that it is a BEGIN."""
        if self._running and statement.upper().split()[:2] in (["BEGIN", "IMMEDIATE"], ["BEGIN", "EXCLUSIVE"]):
            self._fail("begins to write to")

    def _fail(self, does: str) -> None:
        if self.failure is None:
            self.failure = SelfDeadlock(
                f"the handler waits for itself: it {does} {self._path} through a connection of its own, and its "
                f"slice's transaction holds the write lock until the handler returns. {BIND}"
            )
            self._loop.call_soon_threadsafe(self._on_failure)


@contextmanager
def _raise_instead(get_failure: Callable[[], SelfDeadlock | None]) -> Iterator[None]:
    """Raise the failure, if there is one, instead of what the handler raises or returns."""
    try:
        yield
    except Exception as error:  # user code
        if (failure := get_failure()) is not None:
            raise failure from error
        raise
    if (failure := get_failure()) is not None:
        raise failure
