"""The one thread of a store that writes, and group commit.

Jobs that wait are run in one transaction with one COMMIT, that is one sync of the disk, for all of them. One that fails
is rolled back alone. Callers are answered after the commit.

Who holds what is of interest as long as its holder lives, which is no longer than the machine runs. So a job that is
about leases only, and is alone, is committed without a sync: a power cut takes back all of it or nothing. The next sync
is for everything before it, too.
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
from swath.backends.sqlite.errors import translate_error
from swath.backends.sqlite.location import SqliteLocation
from swath.backends.sqlite.open_files import OpenFiles
from swath.backends.sqlite.state import NotDurable, Session, begin
from swath.backends.sqlite.wal_checkpointer import WalCheckpointer
from swath.backends.sqlite.write_queue import WriteQueue
from swath.core.clock import Clock
from swath.core.errors import UsageError
from swath.core.store import Settings

T = TypeVar("T")

GROUP_REQUESTS = 64  # jobs under one commit
GROUP_SECONDS = 0.02  # after which a group takes in no further job
ROUND_SECONDS = 0.16  # in which each process has one turn, while the jobs of all follow one another
TURN_SECONDS = 0.02  # of that at least
SETTLE_SECONDS = 0.05  # by which a turn is longer, if what was claimed last is settled at once
FOLLOW_SHARE = 0.5  # of what a job took, within which one that follows has come: a change of processes costs as much
FOLLOW_SECONDS = (0.002, 0.01)  # but no less, and no more
CHECKPOINT_ROWS = 20_000  # changed, after which the log is copied: some 20 MB of it
SYNC_SECONDS = 10.0  # for which leases are synced, once one had to be


@dataclass(slots=True, eq=False)
class WriteRequest(Generic[T]):
    """Something to do under the write lock, and who waits for it."""

    run: Callable[[Session], T]
    future: "asyncio.Future[T]"
    since: float  # on the monotonic clock, it has been waiting
    wakes: bool = False  # it may make work ready
    looks: bool = False  # it looks for work: what was done before it is no news any more
    leases: bool = False  # it changes who holds what, and as a rule nothing else
    bare: bool = False  # it needs no transaction
    result: T | None = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """Counts of what may have made work ready: by this store, and by other connections to the file."""

    own: int
    others: tuple[int, ...]  # the frontier's pulse


class Writer:
    """Runs jobs in the order in which they came, urgent ones first. Owns its connection, its turn and the copier."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        turn: WriteQueue,
        *,
        files: OpenFiles,
        clock: Clock,
        location: SqliteLocation,
        committed: Callable[[Settings, bool], None],
    ) -> None:
        self._connection = connection
        self._turn = turn
        self._files = files
        self._checkpointer = WalCheckpointer(location.path)
        self._checkpointed_rows = 0  # when that was told last
        self._clock = clock
        self._location = location
        self._committed = committed
        self._urgent: deque[WriteRequest[Any]] = deque()
        self._jobs: deque[WriteRequest[Any]] = deque()
        self._bell: SimpleQueue[bool] = SimpleQueue()  # True for every job, then False to end
        self._closing = threading.Lock()
        self._closed = False
        self._session: Session | None = None  # while what it knows is true
        self._version = self._data_version()  # of the file, for which that is so
        self.generation = 0  # rises when the file was set back to an earlier time
        self._syncs = self._may_sync = connection.execute("PRAGMA synchronous").fetchone()[0] >= FULL
        self._sync_until = 0.0  # on the monotonic clock
        self._begun_at = 0.0  # the same: the file could be written to then
        self._felt = self._version  # of the file, when the pulse was taken
        self.news = Changes(0, self._read_pulse())
        self.looked: Changes | None = None  # what the last claim had seen
        self._turn_began = self._follow_until = 0.0  # on the monotonic clock
        self._follows = False  # the job at hand came soon after the last one was answered
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
        """Run a job and return what it returned, once that is committed.

        A caller that is cancelled while it waits does not stop a job that has begun.
        """
        future = asyncio.get_running_loop().create_future()
        job = WriteRequest(run, future, time.monotonic(), wakes=wakes, looks=looks, leases=leases)
        return await self._submit(job, urgent=urgent)

    async def read_changes(self) -> Changes:
        """What has been made ready so far, also by others."""
        future = asyncio.get_running_loop().create_future()
        return await self._submit(WriteRequest(self._read_changes, future, time.monotonic(), bare=True))

    async def _submit(self, job: WriteRequest[T], *, urgent: bool = False) -> T:
        with self._closing:
            if self._closed:
                raise UsageError(f"the frontier in {self._location.path} is closed: open it again")
            (self._urgent if urgent else self._jobs).append(job)
            self._bell.put(True)
        return await job.future

    async def close(self) -> None:
        """Finish what was submitted, then close the connection."""
        self.end()
        await asyncio.to_thread(self._thread.join)

    def end(self) -> None:
        """The same, without waiting for it."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._bell.put(False)

    # In the thread.

    def _work(self) -> None:
        while self._wait_for_request():
            self._run_group(self._take_request())
            self._checkpoint_log()
        self._turn.close()
        self._checkpointer.close()
        self._connection.close()

    def _checkpoint_log(self) -> None:
        rows = self._connection.total_changes
        if (
            not 0 <= rows - self._checkpointed_rows < CHECKPOINT_ROWS
        ):  # SQLite counts up to 2^31, and goes on from -2^31
            self._checkpointed_rows = rows
            self._checkpointer.copy()

    def _wait_for_request(self) -> bool:
        """Wait for a job: for a moment with the turn, where that was kept, and then without."""
        if self._turn.taken:
            try:
                return self._bell.get(timeout=max(0.0, self._follow_until - time.monotonic()))
            except Empty:
                self._turn.give()
        return self._bell.get()

    def _take_request(self) -> WriteRequest[Any]:
        """The next job, for which the bell has rung."""
        return (self._urgent or self._jobs).popleft()

    def _take_waiting_request(self) -> WriteRequest[Any] | None:
        """A job that waits already."""
        try:
            rung = self._bell.get_nowait()
        except Empty:
            return None
        if rung:
            return self._take_request()
        self._bell.put(False)  # the end: after this group
        return None

    def _run_group(self, first: WriteRequest[Any]) -> None:
        if first.future.cancelled():
            return
        jobs = [first]
        began = time.monotonic()
        try:
            if first.bare:
                first.result = self._read_changes()
                return
            self._take_turn()
            try:
                self._transact(jobs, durable=not self._may_skip_sync(first))
            except NotDurable:
                self._sync_until = time.monotonic() + SYNC_SECONDS
                self._transact(jobs, durable=True)
        except BaseException as error:  # noqa: BLE001 it goes to the callers, in another thread
            self._fail(jobs, error)
        finally:
            self._end_turn(jobs)
            self._answer(jobs)
            now = time.monotonic()
            took = now - max(began, self._turn_began)
            self._follow_until = now + min(max(FOLLOW_SHARE * took, FOLLOW_SECONDS[0]), FOLLOW_SECONDS[1])

    def _may_skip_sync(self, job: WriteRequest[Any]) -> bool:
        """Whether a job can do without a sync that there would be, as far as is known before it is run."""
        alone = not self._jobs and not self._urgent
        return self._may_sync and job.leases and alone and time.monotonic() >= self._sync_until

    def _transact(self, jobs: list[WriteRequest[Any]], *, durable: bool) -> None:
        """Run the first job, and with it those that wait if the commit is synced, in one transaction."""
        if self._may_sync and self._syncs != durable:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._syncs = durable
        # Those that wait while the file is locked do so together, and not one after the other.
        retry_while_busy(lambda: self._connection.execute("BEGIN IMMEDIATE"), since=max(jobs[0].since, self._begun_at))
        self._begun_at = time.monotonic()
        self._files.check()
        version = self._data_version()
        self._keep_session(version)
        if self._run_alone(jobs[0], durable=durable) and durable:
            self._run_others(jobs)
        if self._connection.in_transaction:
            looked = any(job.looks for job in jobs)
            pulse = self._read_pulse() if looked else self.news.others
            settings = self._open_session().settings
            self._files.check()  # what went into a log that is gone would be copied over what others have written since
            self._connection.execute("COMMIT")
            self._files.check()  # and it goes with this process: it must not be confirmed
            self._felt = version if looked else self._felt
            self._announce(settings, jobs, pulse)

    def _take_turn(self) -> None:
        """A turn is more than one transaction long for whoever claims and settles without a pause: each change of
        processes costs the next one what it and SQLite have in memory."""
        self._follows = time.monotonic() < self._follow_until
        if not self._turn.taken:
            self._turn.take()
            self._turn_began = time.monotonic()

    def _end_turn(self, jobs: Sequence[WriteRequest[Any]]) -> None:
        """A turn does not end between a claim and its settlement, if that follows: it would have to be read again."""
        lasts = max(TURN_SECONDS, ROUND_SECONDS / (1 + self._turn.waiting))
        ends = self._turn_began + lasts + (SETTLE_SECONDS if jobs[-1].looks else 0.0)
        if not self._follows or time.monotonic() > ends:
            self._turn.give()

    def _keep_session(self, version: int) -> None:
        """Forget what another connection may have changed; nobody can do so any more in this transaction."""
        if version != self._version:
            before = self._session
            self._version = version
            self._session = None
            if before is not None:
                self._open_session()  # first of all: a format that is not ours may have other tables
                self.generation += self._was_restored(before)
        if self._session is not None:
            self._session.trim()

    def _was_restored(self, before: Session) -> bool:
        """Whether somebody has restored an earlier state (rule 4): partition time only ever rises, and so do positions,
        which tell also where others have worked on since."""
        rows = self._connection.execute(self._location.sql["partition_states"])
        states = {number: (time, position) for number, time, position, *_ in rows}
        for number, partition in before.partitions.items():
            time, position = states.get(number, (0, 0))
            if time < partition.time or position < partition.next_position:
                return True
        return False

    def _open_session(self) -> Session:
        if self._session is None:
            self._session = begin(self._connection, self._clock, self._location)
        return self._session

    def _run_others(self, jobs: list[WriteRequest[Any]]) -> None:
        """Run those that wait, as long as the group is small and young."""
        deadline = time.monotonic() + GROUP_SECONDS
        while len(jobs) < GROUP_REQUESTS and time.monotonic() < deadline:
            job = self._take_waiting_request()
            if job is None:
                return
            if job.future.cancelled():
                continue
            jobs.append(job)
            self._run_in_savepoint(job)

    def _run_alone(self, job: WriteRequest[Any], *, durable: bool) -> bool:
        """The first job needs no savepoint: when it fails, the whole transaction is its own."""
        try:
            session = self._open_session()
            session.durable = durable
            job.result = job.run(session)
        except NotDurable:
            self._roll_back()
            raise
        except BaseException as error:  # noqa: BLE001 it goes to the caller, in another thread
            job.error = error
            self._roll_back()
        return job.error is None

    def _run_in_savepoint(self, job: WriteRequest[Any]) -> None:
        self._connection.execute("SAVEPOINT job")
        try:
            job.result = job.run(self._open_session())
        except BaseException as error:
            job.error = error
            self._session = None
            if not self._connection.in_transaction:
                raise  # SQLite has rolled back all of the group, as it does when the disk is full
            self._connection.execute("ROLLBACK TO job")
        self._connection.execute("RELEASE job")

    def _roll_back(self) -> None:
        self._session = None
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _fail(self, jobs: Iterable[WriteRequest[Any]], error: BaseException) -> None:
        """None of the group has happened."""
        try:
            self._roll_back()
        except sqlite3.Error:
            pass  # the connection is beyond help; the next BEGIN says how
        for job in jobs:
            job.error = job.error or error

    def _announce(self, settings: Settings, jobs: Iterable[WriteRequest[Any]], others: tuple[int, ...]) -> None:
        own = self.news.own
        for job in jobs:
            if job.error is None:
                own += job.wakes
                if job.looks:
                    self.looked = Changes(own, others)
        woken = own != self.news.own
        self.news = Changes(own, others)
        self._committed(settings, woken)

    def _read_changes(self, _: Session | None = None) -> Changes:
        """Others may have written, to this frontier or to something else in the file."""
        version = self._data_version()
        if version != self._felt:
            self.news = Changes(self.news.own, retry_while_busy(self._read_pulse))
            self._felt = version
        return self.news

    def _answer(self, jobs: Iterable[WriteRequest[Any]]) -> None:
        """Hand results to the loops that wait for them, with one call for each loop."""
        waiting: dict[asyncio.AbstractEventLoop, list[WriteRequest[Any]]] = {}
        for job in jobs:
            if isinstance(job.error, sqlite3.Error):
                cause, job.error = job.error, translate_error(job.error, self._location.path)
                job.error.__cause__ = cause
            waiting.setdefault(job.future.get_loop(), []).append(job)
        for loop, own in waiting.items():
            try:
                loop.call_soon_threadsafe(_set_results, own)
            except RuntimeError:
                pass  # that loop is closed: nobody waits any more

    def _read_pulse(self) -> tuple[int, ...]:
        pulse: tuple[int, ...] = self._connection.execute(self._location.sql["pulse"]).fetchone()
        return pulse

    def _data_version(self) -> int:
        version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        return version


def _set_results(jobs: Iterable[WriteRequest[Any]]) -> None:
    for job in jobs:
        if job.future.done():  # cancelled by whoever waited
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)
