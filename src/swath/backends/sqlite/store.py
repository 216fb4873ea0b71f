"""A frontier in one SQLite file: the Store, with its threads."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack, closing, contextmanager
from functools import partial
from typing import Any, TypeVar

from swath.backends.sqlite import add as adding
from swath.backends.sqlite import admin as changing
from swath.backends.sqlite import claim as claiming
from swath.backends.sqlite import reads
from swath.backends.sqlite import settle as settling
from swath.backends.sqlite.connection import connect, resolve_path, retry_while_busy
from swath.backends.sqlite.create import ensure_frontier
from swath.backends.sqlite.errors import translate_errors
from swath.backends.sqlite.external_transaction import settle_within
from swath.backends.sqlite.format import check_tables
from swath.backends.sqlite.location import SqliteLocation
from swath.backends.sqlite.migration import apply_missing
from swath.backends.sqlite.open_files import OpenFiles
from swath.backends.sqlite.state import Session, read_frontier, start_session
from swath.backends.sqlite.transactions import Transactions
from swath.backends.sqlite.wal_limiter import WalLimiter
from swath.backends.sqlite.write_queue import WriteQueue
from swath.backends.sqlite.writer import Writer
from swath.core.clock import Clock, MachineClock, SingleClock, SystemClock
from swath.core.errors import StoreUnavailable, UsageError
from swath.core.store import (
    AuditChange,
    AuditRow,
    ClaimRef,
    ClaimReply,
    ClaimRequest,
    ClaimRow,
    ClockReading,
    Cursor,
    EncodedItem,
    Fact,
    Found,
    ItemRow,
    KnownPlace,
    LaneChange,
    LaneRow,
    PartitionStatus,
    RowPage,
    Settings,
    Settlement,
    SettleReply,
    Signal,
    StoreStatus,
)

T = TypeVar("T")

POLL_SECONDS = 0.05  # how often `wait` checks for changes by other processes


class SqliteStore:
    """One frontier in a file. Several processes may have it open at the same time; they write one after the other."""

    settings: Settings

    def __init__(self, location: SqliteLocation, *, machine: MachineClock, synchronous: str) -> None:
        """Open a file that holds a frontier. Call `open` instead."""
        self._location = location
        self.path = path = location.path
        self._machine = machine
        self._pid = os.getpid()
        self._closed = False
        # Replies that did not reach their caller, because it was cancelled, by token.
        self._unanswered: dict[int, ClaimReply] = {}
        self._wakers: dict[asyncio.Event, Callable[[], None]] = {}
        self._wakers_lock = threading.Lock()
        with translate_errors(path), ExitStack() as opened:
            connection = opened.enter_context(closing(connect(path, synchronous=synchronous)))
            retry_while_busy(partial(check_tables, connection, location))
            self.settings = retry_while_busy(partial(read_frontier, connection, location)).settings
            self._reading = opened.enter_context(closing(connect(path, synchronous=synchronous, read_only=True)))
            try:
                self._files = OpenFiles(path)
                opened.callback(self._files.release)
                queue = WriteQueue(f"{path}-turn")
                opened.callback(queue.close)
                limiter = WalLimiter(path)
                opened.callback(limiter.close)
            except OSError as error:
                raise StoreUnavailable(f"{error.filename} cannot be opened: {error.strerror}") from error
            self._writer = retry_while_busy(
                lambda: Writer(
                    connection,
                    queue,
                    files=self._files,
                    limiter=limiter,
                    machine=machine,
                    location=location,
                    on_commit=self._handle_commit,
                )
            )
            opened.pop_all()
        self._transactions = Transactions(
            path, files=self._files, limiter=limiter, synchronous=synchronous, on_commit=self._wake_waiters
        )
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"swath reader of {path}")

    @classmethod
    async def open(
        cls,
        path: str,
        *,
        schema: str | None = None,
        settings: Settings | None = None,
        create: bool = True,
        clock: Clock | None = None,
        machine: MachineClock | None = None,
        synchronous: str = "full",
    ) -> "SqliteStore":
        """Open the frontier in a file, and create it if it does not exist.

        With `schema`, the names of its tables begin with the schema, and the file may hold other tables and frontiers.
        With `synchronous="normal"`, commits are not synced one by one. That allows several times as many small commits
        per second, but a power cut or a crash of the machine can undo the last ones, each completely. Items that they
        settled are then claimed again. A crash of the process undoes nothing.
        Tests replace the store's clock with `clock`, or the two clocks of this machine with `machine`.
        """
        opening = asyncio.get_running_loop().run_in_executor(
            None, cls._open, path, schema, settings, create, machine or _find_machine(clock), synchronous
        )
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_abandoned)
            raise

    @classmethod
    def _open(
        cls,
        path: str,
        schema: str | None,
        settings: Settings | None,
        create: bool,
        machine: MachineClock,
        synchronous: str,
    ) -> "SqliteStore":
        location = SqliteLocation.of(resolve_path(path), schema)
        ensure_frontier(location, settings, create=create, now=machine.wall())
        return cls(location, machine=machine, synchronous=synchronous)

    @property
    def generation(self) -> int:
        return self._writer.generation

    # Writes

    async def add(self, items: Sequence[EncodedItem]) -> int:
        return await self._write(lambda session: adding.add(session, items), wakes=True)

    async def claim(self, request: ClaimRequest) -> ClaimReply:
        heard = True
        try:
            return await self._write(lambda session: self._claim(session, request), looks=True, leases=True)
        except asyncio.CancelledError:
            heard = False
            raise
        finally:
            if heard:
                self._unanswered.pop(request.token, None)

    def _claim(self, session: Session, request: ClaimRequest) -> ClaimReply:
        """Claim items, or return the earlier claim with this token if its reply never reached the caller.

        Runs in the writer's thread.
        """
        before = self._unanswered.get(request.token)
        reply = None if before is None else claiming.find_unanswered(session, request, before)
        if reply is None:
            reply = claiming.claim(session, request)
        self._unanswered[request.token] = reply
        return reply

    async def renew(self, claim: ClaimRef, lease: int) -> int:
        return await self._write(lambda session: claiming.renew(session, claim, lease), urgent=True, leases=True)

    async def settle(self, claim: ClaimRef, settlement: Settlement, *, connection: Any = None) -> SettleReply:
        if connection is None:
            return await self._write(lambda session: settling.settle(session, claim, settlement), wakes=True)
        self._check_usable()
        return settle_within(
            connection, claim, settlement, location=self._location, inode=self._files.inode, machine=self._machine
        )

    async def change_lane(self, partition: int, lane: str, change: LaneChange) -> None:
        await self._write(lambda session: changing.change_lane(session, partition, lane, change), wakes=True)

    async def change_settings(
        self,
        *,
        min_interval: int | None = None,
        concurrency: int | None = None,
        max_attempts: int | None = None,
        paused: bool | None = None,
    ) -> None:
        await self._write(
            lambda session: changing.change_settings(
                session,
                min_interval=min_interval,
                concurrency=concurrency,
                max_attempts=max_attempts,
                paused=paused,
            ),
            wakes=True,
        )

    async def learn(self, facts: Sequence[Fact]) -> None:
        await self._write(lambda session: changing.learn(session, facts))

    async def audit_change(self, change: AuditChange) -> None:
        await self._write(lambda session: changing.audit_change(session, change))

    async def requeue_lanes(self, partition: int, numbers: Sequence[int]) -> None:
        await self._write(lambda session: changing.requeue_lanes(session, partition, numbers), wakes=True)

    async def reopen(self, places: Sequence[tuple[int, int]]) -> int:
        return await self._write(lambda session: changing.reopen(session, places), wakes=True)

    async def repair(self, settlement: Settlement) -> SettleReply:
        return await self._write(lambda session: settling.repair(session, settlement), wakes=True)

    async def drop(self, places: Sequence[tuple[int, int]], result: str | None) -> int:
        return await self._write(lambda session: changing.drop(session, places, result), wakes=True)

    async def empty_inbox(self, partition: int) -> None:
        """Do nothing: with a single writer, there is no inbox."""

    async def _write(self, run: Callable[[Session], T], **kind: bool) -> T:
        self._check_usable()
        return await self._writer.submit(run, **kind)

    # Reads

    async def signal(self) -> Signal:
        return await self._read(lambda session: session.signal)

    async def read_clock(self) -> ClockReading:
        return await self._read(lambda session: ClockReading(session.clock.now(), self._machine.wall()))

    async def status(self) -> StoreStatus:
        return await self._read(reads.status)

    async def find(self, key_hash: bytes, lane_hash: bytes | None) -> Sequence[Found]:
        return await self._read(lambda session: reads.find(session, key_hash, lane_hash))

    async def lane(self, partition: int, lane: str) -> LaneRow | None:
        return await self._read(lambda session: reads.lane(session, partition, lane))

    async def lanes(self, *, after: tuple[int, int] | None = None, limit: int = 100) -> Sequence[tuple[int, LaneRow]]:
        return await self._read(lambda session: reads.lanes(session, after=after, limit=limit))

    async def items(
        self,
        state: str,
        *,
        lane: tuple[int, str] | None = None,
        result_text: str | None = None,
        after: Cursor | None = None,
        limit: int = 100,
    ) -> RowPage:
        return await self._read(
            lambda session: reads.items(session, state, lane=lane, result_text=result_text, after=after, limit=limit)
        )

    async def claims(self, *, after: int = 0, limit: int = 100) -> Sequence[ClaimRow]:
        return await self._read(lambda session: reads.claims(session, after=after, limit=limit))

    async def pending(
        self, *, after: tuple[int, int] | None = None, limit: int = 100, revisits: bool = False
    ) -> Sequence[ItemRow]:
        return await self._read(lambda session: reads.pending(session, after=after, limit=limit, revisits=revisits))

    async def date_positions(self, places: Sequence[tuple[int, int]]) -> Sequence[int]:
        return await self._read(lambda session: reads.date_positions(session, places))

    async def audit(self, *, limit: int = 100) -> Sequence[AuditRow]:
        return await self._read(lambda session: reads.audit(session, limit=limit))

    async def facts(self, keys: Sequence[str]) -> dict[str, str]:
        return await self._read(lambda session: reads.facts(session, keys))

    async def outputs(self) -> dict[str, int]:
        return await self._read(reads.outputs)

    async def counters(self) -> dict[str, int]:
        return await self._read(reads.counters)

    async def known_places(self, *, after: tuple[int, bytes] = (-1, b""), limit: int = 100) -> Sequence[KnownPlace]:
        return await self._read(lambda session: reads.known_places(session, after=after, limit=limit))

    async def find_positions(self, partition: int, hashes: Sequence[bytes]) -> Sequence[int | None]:
        return await self._read(lambda session: reads.find_positions(session, partition, hashes))

    def transaction(self) -> AbstractAsyncContextManager[sqlite3.Connection]:
        self._check_usable()
        return self._transactions.open()

    def explain_refusal(self, error: BaseException) -> str | None:
        return str(error) if isinstance(error, sqlite3.IntegrityError | sqlite3.DataError) else None

    async def recount(self) -> Sequence[PartitionStatus]:
        return await self._read(reads.recount)

    async def _read(self, question: Callable[[Session], T]) -> T:
        self._check_usable()
        return await asyncio.get_running_loop().run_in_executor(self._reader, self._run_read, question)

    def _run_read(self, question: Callable[[Session], T]) -> T:
        """Run a read in the reader's thread, on one snapshot."""
        with translate_errors(self.path):
            retry_while_busy(partial(self._reading.execute, "BEGIN"))
            try:
                session = retry_while_busy(
                    partial(start_session, self._reading, self._machine, self._location, writes=False)
                )
                self._files.check()
                return question(session)
            finally:
                if self._reading.in_transaction:
                    self._reading.execute("COMMIT")

    # Waiting

    async def wait(self, seconds: float) -> None:
        """Return after `seconds`, or earlier if something was added or settled since the last claim."""
        self._check_usable()
        with self._register_wake_event() as woken:
            try:
                async with asyncio.timeout(seconds):
                    seen = self._writer.looked or await self._writer.read_changes()
                    while not woken.is_set() and await self._writer.read_changes() == seen:
                        await _wait_for_event(woken, POLL_SECONDS)
            except TimeoutError:
                return

    @contextmanager
    def _register_wake_event(self) -> Iterator[asyncio.Event]:
        """Provide an event, inside the block, that is set by the next commit that may make items ready."""
        event = asyncio.Event()
        loop = asyncio.get_running_loop()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:
                pass  # the loop is closed, and its tasks with it

        with self._wakers_lock:
            self._wakers[event] = wake
        try:
            yield event
        finally:
            with self._wakers_lock:
                self._wakers.pop(event)

    def _handle_commit(self, settings: Settings, woken: bool) -> None:
        """Publish new settings and wake waiting tasks. Called in the writer's thread after each commit."""
        self.settings = settings
        if woken:
            self._wake_waiters()

    def _wake_waiters(self) -> None:
        with self._wakers_lock:
            wakers = list(self._wakers.values())
        for wake in wakers:
            wake()

    # Closing

    async def close(self) -> None:
        """Finish the submitted calls and close the file. Further calls raise UsageError."""
        if os.getpid() != self._pid:
            return  # the store belongs to the parent process
        self._closed = True
        await self._writer.close()
        await asyncio.to_thread(self._close_reader)

    def _close_reader(self) -> None:
        self._transactions.close()
        self._reader.shutdown()
        self._reading.close()
        self._files.release()

    def _close_unused(self) -> None:
        """Close a store that was never used, without waiting for its thread."""
        self._closed = True
        self._close_reader()
        self._writer.end()

    def _check_usable(self) -> None:
        if self._closed:
            raise UsageError(f"the frontier in {self.path} is closed: open it again")
        if os.getpid() != self._pid:
            raise UsageError(
                f"process {self._pid} opened the frontier in {self.path}; process {os.getpid()} inherited it by a "
                "fork, which SQLite does not support. Open it in the child, and start children with `spawn`"
            )


def _close_abandoned(opening: "asyncio.Future[SqliteStore]") -> None:
    """Close a store whose caller was cancelled while it opened."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result()._close_unused()


def _find_machine(clock: Clock | None) -> MachineClock:
    return SystemClock() if clock is None else SingleClock(clock)


async def _wait_for_event(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


async def migrate(path: str, *, schema: str | None = None, clock: Clock | None = None) -> Sequence[str]:
    """Migrate a frontier to the format of this version of swath; return the names of the migrations applied."""
    now = _find_machine(clock).wall()
    return await asyncio.to_thread(_migrate, path, schema, now)


def _migrate(path: str, schema: str | None, now: int) -> Sequence[str]:
    """Apply the missing migrations in one transaction."""
    location = SqliteLocation.of(resolve_path(path), schema)
    ensure_frontier(location, None, create=False, now=0)
    with translate_errors(location.path), closing(connect(location.path)) as connection:
        retry_while_busy(partial(connection.execute, "BEGIN IMMEDIATE"))
        try:
            applied = apply_missing(connection, location, now=now)
            check_tables(connection, location)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        return applied
