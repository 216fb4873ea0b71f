"""Writer: the thread of a store that writes, with group commit.

The thread runs all waiting requests in one transaction, so that they share one sync of the disk. If a request fails,
only that request is rolled back. Callers get their answers after the commit.

A lease matters only while its holder runs, and a power cut ends the holder too. So a transaction with a single request
that changes only leases commits without a sync: a power cut undoes all of it or nothing. The next sync covers it.
"""

import asyncio
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from swath.backends.sqlite.connection import FULL, retry_while_busy
from swath.backends.sqlite.errors import means_full_disk, translate_error
from swath.backends.sqlite.location import SqliteLocation
from swath.backends.sqlite.open_files import OpenFiles
from swath.backends.sqlite.state import NotDurable, Session, start_session
from swath.backends.sqlite.wal_limiter import WalLimiter
from swath.backends.sqlite.write_queue import WriteQueue
from swath.core.clock import MachineClock
from swath.core.errors import UsageError
from swath.core.store import Settings

T = TypeVar("T")

GROUP_REQUESTS = 64  # requests in one commit
GROUP_SECONDS = 0.02  # after this time a group accepts no further request
ROUND_SECONDS = 0.16  # each busy process has one turn within this time
TURN_SECONDS = 0.02  # the shortest turn
SETTLE_SECONDS = 0.05  # a turn lasts this much longer after a claim, so that its settlement fits in
# How long to keep the turn for another request, as a share of the time that the last one took.
FOLLOW_SHARE = 0.5
FOLLOW_SECONDS = (0.002, 0.01)  # the minimum and the maximum of that time
SYNC_SECONDS = 10.0  # after a lease had to be synced, sync all of them for this long


@dataclass(slots=True, eq=False)
class WriteRequest(Generic[T]):
    """A function to run under the write lock, and the future of its caller."""

    run: Callable[[Session], T]
    future: "asyncio.Future[T]"
    since: float  # when the caller submitted it, on the monotonic clock
    wakes: bool = False  # it may make work ready
    looks: bool = False  # it is a claim, so it sees all changes before it
    leases: bool = False  # it changes leases, and usually nothing else
    bare: bool = False  # it needs no transaction
    result: T | None = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """Counts of changes that may have made work ready, by this store and by other connections to the file."""

    own: int
    others: tuple[int, ...]  # partition times, which every write advances


class Writer:
    """Runs requests in the order of their arrival, urgent ones first. Owns its connection, its place in the queue of
    writers, and the limiter of the log."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        queue: WriteQueue,
        *,
        files: OpenFiles,
        limiter: WalLimiter,
        machine: MachineClock,
        location: SqliteLocation,
        on_commit: Callable[[Settings, bool], None],
    ) -> None:
        self._connection = limiter.adopt(connection)
        self._queue = queue
        self._files = files
        self._limiter = limiter
        self._machine = machine
        self._location = location
        self._on_commit = on_commit
        self._urgent: deque[WriteRequest[Any]] = deque()
        self._requests: deque[WriteRequest[Any]] = deque()
        self._bell: SimpleQueue[bool] = SimpleQueue()  # True for each request; False ends the thread
        self._closing = threading.Lock()
        self._closed = False
        self._session: Session | None = None  # None: must be read again
        self._version = self._read_data_version()  # the data version of the file when the session was read
        self.generation = 0  # rises when the file was restored to an earlier state
        self._syncs = self._may_sync = connection.execute("PRAGMA synchronous").fetchone()[0] >= FULL
        self._sync_until = 0.0  # on the monotonic clock
        self._begun_at = 0.0  # on the monotonic clock: when BEGIN last succeeded
        self._felt = self._version  # the data version of the file when the pulse was read
        self.news = Changes(0, self._read_pulse())
        self.looked: Changes | None = None  # the changes that the last claim saw
        self._turn_began = self._follow_until = 0.0  # on the monotonic clock
        self._follows = False  # whether the request came soon after the last answer
        self._thread = threading.Thread(target=self._work, name=f"swath writer of {location.path}", daemon=True)
        self._thread.start()

    async def submit(
        self,
        run: Callable[[Session], T],
        *,
        urgent: bool = False,
        wakes: bool = False,
        looks: bool = False,
        leases: bool = False,
    ) -> T:
        """Run a function in the writer's thread and return its result after the commit.

        Cancelling the caller does not stop a request that has begun.
        """
        future = asyncio.get_running_loop().create_future()
        request = WriteRequest(run, future, time.monotonic(), wakes=wakes, looks=looks, leases=leases)
        return await self._submit(request, urgent=urgent)

    async def read_changes(self) -> Changes:
        """Return the counts of changes so far, including those of other processes."""
        future = asyncio.get_running_loop().create_future()
        return await self._submit(WriteRequest(self._read_changes, future, time.monotonic(), bare=True))

    async def _submit(self, request: WriteRequest[T], *, urgent: bool = False) -> T:
        with self._closing:
            if self._closed:
                raise UsageError(f"the frontier in {self._location.path} is closed: open it again")
            (self._urgent if urgent else self._requests).append(request)
            self._bell.put(True)
        return await request.future

    async def close(self) -> None:
        """Finish the submitted requests, then close the connection."""
        self.end()
        await asyncio.to_thread(self._thread.join)

    def end(self) -> None:
        """Do the same as `close`, without waiting."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._bell.put(False)

    # The methods below run in the thread.

    def _work(self) -> None:
        while self._wait_for_request():
            self._run_group(self._take_request())
        self._queue.close()
        self._limiter.close()
        self._connection.close()

    def _wait_for_request(self) -> bool:
        """Wait for a request. If this process has kept its turn, release it when none comes soon."""
        if self._queue.is_held:
            try:
                return self._bell.get(timeout=max(0.0, self._follow_until - time.monotonic()))
            except Empty:
                self._queue.release()
        return self._bell.get()

    def _take_request(self) -> WriteRequest[Any]:
        """Return the next request; the caller has taken its entry from `_bell`."""
        return (self._urgent or self._requests).popleft()

    def _take_waiting_request(self) -> WriteRequest[Any] | None:
        """Return a request if one is waiting, otherwise None."""
        try:
            rung = self._bell.get_nowait()
        except Empty:
            return None
        if rung:
            return self._take_request()
        self._bell.put(False)  # close after this group
        return None

    def _run_group(self, first: WriteRequest[Any]) -> None:
        if first.future.cancelled():
            return
        requests = [first]
        began = time.monotonic()
        try:
            if first.bare:
                first.result = self._read_changes()
                return
            self._take_turn()
            try:
                self._transact(requests, durable=not self._may_skip_sync(first))
            except NotDurable:
                self._sync_until = time.monotonic() + SYNC_SECONDS
                self._transact(requests, durable=True)
        except BaseException as error:  # noqa: BLE001 passed to the callers, in another thread
            self._fail(requests, error)
        finally:
            took = time.monotonic() - max(began, self._turn_began)
            errors = [request.error for request in requests]
            is_full = any(isinstance(error, sqlite3.Error) and means_full_disk(error) for error in errors)
            if is_full:
                self._limiter.make_room(self._connection)  # before a caller tries again
            if not (first.bare or is_full) and self._limiter.is_due(postpone=not first.leases):
                # Nobody waits for the log while it is shortened after a claim: its caller has work to do.
                self._answer(requests)
                self._limiter.shorten(self._connection)
                self._end_turn(requests)
            else:
                self._end_turn(requests)
                self._answer(requests)
            follow_seconds = min(max(FOLLOW_SHARE * took, FOLLOW_SECONDS[0]), FOLLOW_SECONDS[1])
            self._follow_until = time.monotonic() + follow_seconds

    def _may_skip_sync(self, request: WriteRequest[Any]) -> bool:
        """Return whether to try a commit without a sync. The request itself may still need one."""
        alone = not self._requests and not self._urgent
        return self._may_sync and request.leases and alone and time.monotonic() >= self._sync_until

    def _transact(self, requests: list[WriteRequest[Any]], *, durable: bool) -> None:
        """Run the first request in a transaction. If the commit is synced, run the waiting requests in it too."""
        if self._may_sync and self._syncs != durable:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._syncs = durable
        # Requests that wait for a locked file share one timeout, counted from the submission of the first.
        retry_while_busy(
            lambda: self._connection.execute("BEGIN IMMEDIATE"), since=max(requests[0].since, self._begun_at)
        )
        self._begun_at = time.monotonic()
        self._files.check()
        version = self._read_data_version()
        self._keep_session(version)
        if self._run_alone(requests[0], durable=durable) and durable:
            self._run_others(requests)
        if self._connection.in_transaction:
            looked = any(request.looks for request in requests)
            pulse = self._read_pulse() if looked else self.news.others
            settings = self._open_session().settings
            self._files.check()  # a commit into a removed log would later overwrite writes of other processes
            self._connection.execute("COMMIT")
            self._files.check()  # if the log was removed during the commit, the commit is lost: do not confirm it
            self._felt = version if looked else self._felt
            self._announce(settings, requests, pulse)

    def _take_turn(self) -> None:
        """Acquire the turn unless this process still has it.

        A process that claims and settles without a pause keeps its turn for several transactions, because a write of
        another process invalidates its cached session and SQLite's page cache.
        """
        self._follows = time.monotonic() < self._follow_until
        if not self._queue.is_held:
            self._queue.acquire()
            self._turn_began = time.monotonic()

    def _end_turn(self, requests: Sequence[WriteRequest[Any]]) -> None:
        """Release the turn if it lasted long enough.

        Keep it between a claim and a settlement that follows at once, which would otherwise have to read everything
        again.
        """
        lasts = max(TURN_SECONDS, ROUND_SECONDS / (1 + self._queue.waiting))
        ends = self._turn_began + lasts + (SETTLE_SECONDS if requests[-1].looks else 0.0)
        if not self._follows or time.monotonic() > ends:
            self._queue.release()

    def _keep_session(self, version: int) -> None:
        """Discard the cached session if another connection has committed since it was read.

        No connection can commit during this transaction.
        """
        if version != self._version:
            before = self._session
            self._version = version
            self._session = None
            if before is not None:
                self._open_session()  # checks the format first, because another format may have other tables
                self.generation += self._was_restored(before)
        if self._session is not None:
            self._session.trim()

    def _was_restored(self, before: Session) -> bool:
        """Return whether the file was restored to an earlier state.

        Partition times and positions only rise. Positions show a restore even if other processes have written since.
        """
        rows = self._connection.execute(self._location.sql["partition_states"])
        states = {number: (time, position) for number, time, position, *_ in rows}
        for number, partition in before.partitions.items():
            time, position = states.get(number, (0, 0))
            if time < partition.time or position < partition.next_position:
                return True
        return False

    def _open_session(self) -> Session:
        if self._session is None:
            self._session = start_session(self._connection, self._machine, self._location, writes=True)
        return self._session

    def _run_others(self, requests: list[WriteRequest[Any]]) -> None:
        """Run the waiting requests while the group is small and young."""
        deadline = time.monotonic() + GROUP_SECONDS
        while len(requests) < GROUP_REQUESTS and time.monotonic() < deadline:
            request = self._take_waiting_request()
            if request is None:
                return
            if request.future.cancelled():
                continue
            requests.append(request)
            self._run_in_savepoint(request)

    def _run_alone(self, request: WriteRequest[Any], *, durable: bool) -> bool:
        """Run the first request. It needs no savepoint: if it fails, the whole transaction is rolled back."""
        try:
            session = self._open_session()
            session.durable = durable
            request.result = request.run(session)
        except NotDurable:
            self._roll_back()
            raise
        except BaseException as error:  # noqa: BLE001 passed to the caller, in another thread
            request.error = error
            self._roll_back()
        return request.error is None

    def _run_in_savepoint(self, request: WriteRequest[Any]) -> None:
        self._connection.execute("SAVEPOINT request")
        try:
            request.result = request.run(self._open_session())
        except BaseException as error:
            request.error = error
            self._session = None
            if not self._connection.in_transaction:
                raise  # SQLite has rolled back the whole group, as it does when the disk is full
            self._connection.execute("ROLLBACK TO request")
        self._connection.execute("RELEASE request")

    def _roll_back(self) -> None:
        self._session = None
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _fail(self, requests: Iterable[WriteRequest[Any]], error: BaseException) -> None:
        """Roll back the group and fail its requests."""
        try:
            self._roll_back()
        except sqlite3.Error:
            pass  # the next BEGIN reports the error of the connection
        for request in requests:
            request.error = request.error or error

    def _announce(self, settings: Settings, requests: Iterable[WriteRequest[Any]], others: tuple[int, ...]) -> None:
        own = self.news.own
        for request in requests:
            if request.error is None:
                own += request.wakes
                if request.looks:
                    self.looked = Changes(own, others)
        woken = own != self.news.own
        self.news = Changes(own, others)
        self._on_commit(settings, woken)

    def _read_changes(self, _: Session | None = None) -> Changes:
        """Read the pulse again if another connection has written to the file."""
        version = self._read_data_version()
        if version != self._felt:
            self.news = Changes(self.news.own, retry_while_busy(self._read_pulse))
            self._felt = version
        return self.news

    def _answer(self, requests: Iterable[WriteRequest[Any]]) -> None:
        """Pass the results to the waiting event loops, with one call for each loop."""
        waiting: dict[asyncio.AbstractEventLoop, list[WriteRequest[Any]]] = {}
        for request in requests:
            if isinstance(request.error, sqlite3.Error):
                cause, request.error = request.error, translate_error(request.error, self._location.path)
                request.error.__cause__ = cause
            waiting.setdefault(request.future.get_loop(), []).append(request)
        for loop, own in waiting.items():
            try:
                loop.call_soon_threadsafe(_set_results, own)
            except RuntimeError:
                pass  # the loop is closed, and its tasks with it

    def _read_pulse(self) -> tuple[int, ...]:
        pulse: tuple[int, ...] = self._connection.execute(self._location.sql["pulse"]).fetchone()
        return pulse

    def _read_data_version(self) -> int:
        version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        return version


def _set_results(requests: Iterable[WriteRequest[Any]]) -> None:
    for request in requests:
        if request.future.done():  # the caller was cancelled
            continue
        if request.error is not None:
            request.future.set_exception(request.error)
        else:
            request.future.set_result(request.result)
