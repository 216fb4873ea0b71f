"""BackfillJob: one process of a backfill, from opening the table to the last slice."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import swath
from swath import (
    Frontier,
    Item,
    Observer,
    Outcome,
    RunMonitor,
    RunState,
    Stop,
    StoreUnavailable,
    Summary,
    UsageError,
)
from swath.backfill import preflight, resume, timeouts
from swath.backfill.database_identity import identify_database, is_same_database
from swath.backfill.handler import PAUSE_SECONDS, BackfillHandler
from swath.backfill.load_signals import LoadSignals
from swath.backfill.operations import FunctionOperation, Operation, SetOperation, SqlOperation
from swath.backfill.progress import Progress, read_progress
from swath.backfill.ranges import END, PlanStep, parse_work
from swath.backfill.self_deadlock import DeadlockWatcher, NoWatcher, PostgresWatcher, SqliteWatcher
from swath.backfill.settings import BackfillSettings
from swath.backfill.statement import check_key_unchanged
from swath.backfill.stats import BackfillStats
from swath.backfill.tail import TailFollower
from swath.backfill.throttle import Throttle
from swath.import_path import import_function
from swath.tables.definition import TableChanged
from swath.tables.open import open_table
from swath.tables.slice_sizer import SliceSizer
from swath.tables.table import Key, Table
from swath.worker_threads import WorkerThreads

MAX_ATTEMPTS = 5
REFRESH_SECONDS = 1.0  # between reads of the progress
SPARE_CONNECTIONS = 3  # besides two per worker: planning, load signals, preflight checks


class StartInfo(NamedTuple):
    """What a process finds when it starts or joins a backfill."""

    resumed: bool
    progress: Progress


class BackfillJob:
    """A backfill in this process, with its table open. Other processes may run the same backfill; all are equal."""

    def __init__(
        self,
        settings: BackfillSettings,
        table: Table,
        operation: Operation,
        threads: WorkerThreads,
        watcher: DeadlockWatcher,
        *,
        stop: Stop,
        report: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.table = table
        self.operation = operation
        self.stats = BackfillStats()
        self.monitor = RunMonitor(noun="slice")
        self.sizer = SliceSizer(settings.batch, target=settings.target_time)
        self.progress: Progress | None = None
        self.throttle: Throttle | None = None
        self._threads = threads
        self._watcher = watcher
        self._change: TableChanged | None = None
        self._stop = stop
        self._report = report

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: BackfillSettings, *, stop: Stop, report: Callable[[str], None]
    ) -> AsyncIterator["BackfillJob"]:
        """Open the table and import the handler of --run. `report` receives messages about the throttle."""
        table = await open_table(
            settings.db,
            settings.table,
            key=settings.key,
            connections=2 * settings.workers + SPARE_CONNECTIONS,
        )
        watcher = _make_watcher(settings, table, lambda: stop.request("self-deadlock"))
        threads = WorkerThreads()
        try:
            handler = None if settings.run is None else import_function(settings.run, flag="--run")
            if settings.first is not None:
                table.lower_bound = await table.parse_key(settings.first)
            operation = _make_operation(settings, table, handler, threads, watcher)
            yield cls(settings, table, operation, threads, watcher, stop=stop, report=report)
        finally:
            watcher.close()
            threads.close()
            await table.close()

    @property
    def exactly_once(self) -> bool:
        return is_same_database(self.settings.db, self.settings.store_url)

    @property
    def states(self) -> Sequence[RunState]:
        """Why nothing happens, or less than could."""
        states = self.monitor.states
        if self.throttle is None or (overload := self.throttle.overload) is None:
            return states
        throttled = RunState("throttled", f"{overload.describe()}: {overload.reason}", self.throttle.seconds)
        if overload.pause:  # the throttle blocks the lane and releases its slices
            states = tuple(state for state in states if state.name not in ("pacing", "delayed"))
        return [*states, throttled]

    @asynccontextmanager
    async def notice_changes(self) -> AsyncIterator[None]:
        """Raise TableChanged instead of a database error if the table has changed since it was opened."""
        try:
            yield
        except timeouts.INVALID:
            await self.table.check_unchanged(columns=True)
            raise

    async def check(self) -> None:
        """Raise UsageError for anything that would fail later, before anything is created."""
        settings = self.settings
        if settings.set is not None:
            check_key_unchanged(self.table, settings.set)
        await self._make_signals().check(slowdown=1.0)  # fails if the load cannot be queried
        upto = await self._parse_end()
        first = await self.table.find_first_key(upto=upto)
        if first is None or settings.run is not None:
            return
        await preflight.check_statement(self.table, self.operation, first)
        if settings.set is None or self.exactly_once or settings.force:
            return
        if not await preflight.is_repeatable(self.table, self.operation, self._threads, upto=upto):
            raise UsageError(
                f"--set {settings.set!r} is not repeatable: a second run over the same rows changes them again. With "
                "a store in another database, a crash may run it twice on some rows. Omit --store, so that the "
                "frontier is in the table's database and every row is changed exactly once; or add a --where that "
                "excludes rows that are done; or accept this with --force"
            )

    async def start(self, frontier: Frontier) -> StartInfo:
        """Start the backfill or join it. Raise UsageError if the frontier holds something else."""
        resumed = await self.check_frontier(frontier)
        if not resumed:
            await frontier.add(await self._make_first_item())
            await self.check_frontier(frontier)  # another process may have started a different one at the same time
        await resume.record_definition(frontier, self.table)
        if self.settings.follow and (end := (await frontier.facts([END])).get(END)) is not None:
            step = parse_work(end)  # an earlier run without --follow planned everything up to here
            assert isinstance(step, PlanStep)
            await frontier.add(step.to_resumed_item())
        progress = await read_progress(frontier)
        assert progress is not None
        return StartInfo(resumed, progress)

    async def check_frontier(self, frontier: Frontier) -> bool:
        """Return whether the frontier holds this backfill. Raise UsageError if it holds something else."""
        return await resume.check_frontier(frontier, self.settings, self.table, purpose=self._describe_purpose())

    async def run(self, frontier: Frontier) -> Summary:
        """Process all slices, until the backfill is complete or a stop is requested.

        Raise SelfDeadlock if the handler waits for its own slice, and TableChanged if the table does not fit any more.
        """
        settings = self.settings
        throttle = Throttle(frontier, self._make_signals(), slowdown=lambda: self.sizer.slowdown, report=self._report)
        self.throttle = throttle
        handler = self.make_handler(pause_reason=throttle.pause_reason)
        begin = self.table.blocking_transaction if self.operation.blocking else self.table.transaction

        async def handle_at_least_once(item: Item) -> Outcome:
            """Commit the rows first, then settle the item."""
            try:
                async with begin() as connection:
                    return await handler(item, connection)
            except StoreUnavailable:
                return item.release(after=PAUSE_SECONDS)

        background = [asyncio.create_task(throttle.watch()), asyncio.create_task(self._refresh_progress(frontier))]
        try:
            summary = await frontier.run(
                handler if self.exactly_once else handle_at_least_once,
                workers=settings.workers,
                lease=settings.lease,
                timeout=settings.timeout,
                grace=get_grace(settings),
                until="stopped" if settings.follow else "done",
                handle_signals=False,
                transaction=begin if self.exactly_once else None,
                stop=self._stop,
                monitor=self.monitor,
            )
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
        if self._watcher.failure is not None:
            raise self._watcher.failure
        if self._change is not None:
            raise TableChanged(
                f"the table changed while the backfill ran: {self._change}. Undo the change and run the same command "
                f"again to resume, or start another backfill with a new {resume.get_store_option(settings)}"
            ) from self._change
        return summary

    def _stop_after_change(self, change: TableChanged) -> None:
        self._change = self._change or change
        self._stop.request("table-changed")

    def make_handler(self, *, pause_reason: Callable[[], str | None]) -> BackfillHandler:
        return BackfillHandler(
            self.table,
            self.operation,
            self.sizer,
            self.stats,
            workers=self.settings.workers,
            follower=TailFollower(self.table) if self.settings.follow else None,
            pause_reason=pause_reason,
            record_error=self.monitor.record_error,
            stop_after_change=self._stop_after_change,
        )

    async def _make_first_item(self) -> Item:
        settings, table = self.settings, self.table
        upto = await self._parse_end()
        last = await table.find_last_key(upto=upto)
        bound = upto if upto is not None and last is not None else last
        about = {
            "purpose": self._describe_purpose(),
            "table": table.description.name,
            "key_columns": list(table.description.key_names),
            "text_key": table.description.key[0].is_text,
            "first_key": _to_list(await table.find_first_key(upto=upto)),
            "rows": await table.estimate_rows(upto=upto),
            "upto": _to_list(bound),
        }
        # With --follow, the tail follower decides how far to go, from the start.
        return PlanStep(0, None, None if settings.follow else bound, settings.batch, 0).to_first_item(about)

    def _describe_purpose(self) -> dict[str, Any]:
        """Return what the backfill does. A frontier in another database also records the table's database."""
        apart = {} if self.exactly_once else {"db": identify_database(self.settings.db)}
        return self.settings.get_purpose() | apart

    async def _parse_end(self) -> Key | None:
        """Parse `--to`. Raise UsageError if it is before `--from`."""
        settings, table = self.settings, self.table
        upto = None if settings.last is None else await table.parse_key(settings.last)
        if table.lower_bound is not None and upto is not None and await table.is_after(table.lower_bound, upto):
            raise UsageError(f"--from {', '.join(settings.first or ())} is after --to {', '.join(settings.last or ())}")
        return upto

    def _make_signals(self) -> LoadSignals:
        settings = self.settings
        return LoadSignals(
            self.table,
            max_lag=settings.max_lag,
            lag_query=settings.lag_query,
            max_active=settings.max_active,
            pause_file=settings.pause_file,
        )

    async def _refresh_progress(self, frontier: Frontier) -> None:
        while True:
            try:
                self.progress = await read_progress(frontier)
            except StoreUnavailable:
                pass  # the runner reports it and waits
            await asyncio.sleep(REFRESH_SECONDS)


def get_grace(settings: BackfillSettings) -> float:
    """Return the seconds that running slices have to finish when the backfill stops."""
    return max(10.0, 2 * settings.target_time)


def open_frontier(
    settings: BackfillSettings, *, create: bool = True, observer: Observer | None = None
) -> swath.Opening:
    """Open the frontier of a backfill. It has one partition, so that its checkpoint is one key."""
    if not create:
        return swath.open(settings.store_url, create=False)
    return swath.open(settings.store_url, partitions=1, max_attempts=MAX_ATTEMPTS, observer=observer)


def _make_operation(
    settings: BackfillSettings,
    table: Table,
    handler: Callable[..., Any] | None,
    threads: WorkerThreads,
    watcher: DeadlockWatcher,
) -> Operation:
    if settings.set is not None:
        return SetOperation(table, settings.set, settings.where)
    if settings.sql is not None:
        return SqlOperation(table, settings.sql)
    assert handler is not None
    seconds = timeouts.get_time_limit(settings.target_time)
    return FunctionOperation(table, handler, settings.where, seconds=seconds, threads=threads, watcher=watcher)


def _make_watcher(settings: BackfillSettings, table: Table, on_failure: Callable[[], object]) -> DeadlockWatcher:
    """Return what recognises a handler that waits for itself. Make it before the handler's module is imported."""
    if settings.run is None:
        return NoWatcher()
    if table.kind == "sqlite":
        return SqliteWatcher(table.label, on_failure=on_failure)
    from swath.tables.postgres import connect_blocking

    return PostgresWatcher(lambda: connect_blocking(settings.db), on_failure=on_failure)


def _to_list(key: Key | None) -> list[Any] | None:
    return None if key is None else list(key)
