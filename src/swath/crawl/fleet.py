"""Fleet: the processes of a crawl on one machine.

With one process the crawl runs in the caller's process. With more, each is a child that opens the frontier itself. A
child sends its statistics through a pipe, and the parent sends a stop request through the same pipe.
"""

import asyncio
import logging
import math
import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Final

import uvloop

import swath
from swath import (
    STOP_SECONDS,
    Frontier,
    HandlerError,
    Observer,
    OutputFull,
    RunState,
    SchemaError,
    Status,
    Stop,
    StoreFull,
    StoreUnavailable,
    Summary,
    SwathError,
    UsageError,
)
from swath.crawl.handlers.code import CrawlCode
from swath.crawl.handlers.lifespan import leave_process
from swath.crawl.job import GRACE_SECONDS, CrawlJob, count_pages, read_status
from swath.crawl.settings import CrawlSettings
from swath.crawl.stats import sum_stats
from swath.logs.entries import ProcessFailed
from swath.logs.run_log import FORWARDED, open_run_log
from swath.logs.settings import find_secrets

REPORT_SECONDS = 0.5
ERROR_FAMILIES: Final = (
    UsageError,
    StoreUnavailable,
    StoreFull,
    OutputFull,
    SchemaError,
)  # each needs a different action from the user
IDLE: Final = {"leased", "pacing", "delayed"}  # states that mean nothing while another process works
SUMMED: Final = ("done", "retried", "died", "released", "split", "lost", "discovered")


class ChildFailed(SwathError):
    """Every process of the crawl failed, with errors of different kinds.

    While at least one process runs, it takes over the pages of a failed one when their lease ends.
    """


class Fleet:
    """Runs a crawl with the configured number of processes and adds up their statistics."""

    def __init__(
        self,
        settings: CrawlSettings,
        frontier: Frontier,
        stop: Stop,
        *,
        code: CrawlCode | None = None,
        observer: Observer | None = None,
    ) -> None:
        """`observer` gets the events of the crawl in this process. Child processes write to the log themselves."""
        self._observer = observer
        self._code = code
        self._settings = settings
        self._frontier = frontier
        self._stop = stop
        self._job: CrawlJob | None = None
        self._children: list[_Child] = []
        self._status: Status | None = None
        self._total_pages = 0
        self._stopping_since: float | None = None
        self.failures: list[str] = []  # one line for each process that failed

    def stats(self) -> dict[str, Any]:
        """Return the statistics of all processes so far."""
        if self._job is not None:
            return {**self._job.stats.as_dict(), "rate": self._job.stats.rate()}
        return sum_stats([child.stats for child in self._children if child.stats])

    @property
    def lifespan_hangs(self) -> bool:
        """Whether the lifespan of the crawler was not closed in this process, which may not exit by itself."""
        return self._job is not None and self._job.lifespan_hangs

    @property
    def in_flight(self) -> int:
        """The number of pages that are being fetched or processed."""
        if self._job is not None:
            return self._job.stats.in_flight
        return sum(child.stats.get("in_flight", 0) for child in self._children)

    @property
    def states(self) -> Sequence[RunState]:
        """Why nothing happens, or less than could, in all processes."""
        if self._job is not None:
            return self._job.monitor.states
        states = merge_states([child.states for child in self._children if not child.ended])
        if self._stopping_since is None:
            return states
        seconds = time.monotonic() - self._stopping_since
        left = math.ceil(max(0.0, GRACE_SECONDS + STOP_SECONDS - seconds))
        detail = f"{self.in_flight:,} page{'' if self.in_flight == 1 else 's'} in flight, at most {left} s"
        return [RunState("stopping", detail, seconds), *(state for state in states if state.name != "stopping")]

    @property
    def errors(self) -> Sequence[HandlerError]:
        """The errors of page handlers, which are bugs of swath."""
        if self._job is not None:
            return self._job.monitor.errors
        return sum_errors(error for child in self._children for error in child.errors)

    @property
    def status(self) -> Status | None:
        """The status of the frontier, less than a second old."""
        return self._job.status if self._job is not None else self._status

    @property
    def total_pages(self) -> int:
        """The pages of the whole crawl, in all processes and runs. Less than a second old."""
        return self._job.total_pages if self._job is not None else self._total_pages

    async def run(self) -> Summary:
        if self._settings.processes == 1:
            self._job = CrawlJob(
                self._settings,
                self._frontier,
                stop=self._stop,
                code=self._code,
                observer=self._observer,
                owns_process=True,
            )
            return await self._job.run()
        return await self._run_children()

    async def _run_children(self) -> Summary:
        context = multiprocessing.get_context("spawn")  # event loops and database connections do not survive a fork
        self._children = [_Child(context, self._settings, number) for number in range(self._settings.processes)]
        self._stop.on_change = self._forward_stop
        self._forward_stop()
        refreshing = asyncio.create_task(self._refresh_status())
        try:
            await asyncio.gather(*(self._wait(child) for child in self._children))
        finally:
            refreshing.cancel()
            for child in self._children:
                child.kill()
            await asyncio.gather(refreshing, return_exceptions=True)
        if self._stop.abort_error is not None:
            raise self._stop.abort_error
        self.failures = [child.describe_failure() for child in self._children if child.failure]
        summaries = [child.summary for child in self._children if child.summary is not None]
        if not summaries:
            raise _find_common_error_type(child.error_type for child in self._children)("; ".join(self.failures))
        return _sum_summaries(summaries)

    async def _wait(self, child: "_Child") -> None:
        await child.wait()
        if child.failure and self._observer is not None:
            self._observer(ProcessFailed(child.describe_failure()))

    async def _refresh_status(self) -> None:
        while True:
            try:
                self._status = await read_status(self._frontier, self._code)
                self._total_pages = await count_pages(self._frontier)
            except StoreUnavailable:
                pass  # the children log the outage and retry
            await asyncio.sleep(REPORT_SECONDS)

    def _forward_stop(self) -> None:
        if self._stop.reason is not None and self._stopping_since is None:
            self._stopping_since = time.monotonic()
        for child in self._children:
            if self._stop.abort_error is not None:
                child.kill()
            elif self._stop.reason is not None:
                child.request_stop(self._stop.reason)


class _Child:
    """The parent's view of a child process."""

    def __init__(self, context: Any, settings: CrawlSettings, number: int) -> None:
        self.number = number
        self.stats: dict[str, Any] = {}
        self.states: Sequence[RunState] = ()
        self.errors: Sequence[HandlerError] = ()
        self.summary: Summary | None = None
        self.failure: str | None = None
        self.error_type: type[SwathError] = ChildFailed  # of the failure
        self._pipe, child_end = context.Pipe()
        self._process = context.Process(
            target=_run_child, args=(settings, number, child_end), name=f"swath-crawl-{number}"
        )
        # Only the parent handles Ctrl-C, and forwards it: the child inherits the blocked signal. Start the resource
        # tracker first, because multiprocessing starts it with the first process, and that unblocks the signal.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        child_end.close()
        self._loop = asyncio.get_running_loop()
        self._closed = self._loop.create_future()
        self._loop.add_reader(self._pipe.fileno(), self._receive)

    def _receive(self) -> None:
        try:
            while self._pipe.poll():
                kind, value = self._pipe.recv()
                if kind == "stats":
                    self.stats, self.states, self.errors = value
                elif kind == "log":
                    name, level, message = value
                    logging.getLogger(name).log(level, "%s", message, extra={FORWARDED: True})
                elif kind == "summary":
                    self.summary = value
                else:
                    self.error_type, self.failure = value
        except (EOFError, OSError):
            self._loop.remove_reader(self._pipe.fileno())
            if not self._closed.done():
                self._closed.set_result(None)

    @property
    def ended(self) -> bool:
        return self.summary is not None or self.failure is not None

    async def wait(self) -> None:
        """Wait until the process has exited."""
        await self._closed
        await asyncio.to_thread(self._process.join)
        if self.summary is None and self.failure is None:
            self.failure = f"exited with code {self._process.exitcode}"

    def describe_failure(self) -> str:
        return f"process {self.number}: {self.failure}"

    def request_stop(self, reason: str) -> None:
        try:
            self._pipe.send(reason)
        except OSError:
            pass  # it has exited

    def kill(self) -> None:
        if self._process.is_alive():
            self._process.kill()


def _run_child(settings: CrawlSettings, number: int, pipe: Connection) -> None:
    """Run in the child process until the crawl ends, the parent requests a stop, or the parent dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _send(pipe, "summary", run_in_uvloop(_crawl(settings, number, pipe)))
    except SwathError as error:
        _send(pipe, "failure", (type(error), str(error)))


def run_in_uvloop(work: Coroutine[Any, Any, Summary]) -> Summary:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def _send(pipe: Connection, kind: str, value: object) -> None:
    try:
        pipe.send((kind, value))
    except OSError:
        pass  # the parent has exited


class LogForwarder(logging.Handler):
    """Sends what swath logs to the parent, which may have a live display on the terminal."""

    def __init__(self, pipe: Connection, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(logging.WARNING)
        self._pipe = pipe
        self._loop = loop

    def emit(self, record: logging.LogRecord) -> None:
        message = (record.name, record.levelno, self.format(record))
        try:
            self._loop.call_soon_threadsafe(_send, self._pipe, "log", message)
        except RuntimeError:
            pass  # the loop is closed


async def _crawl(settings: CrawlSettings, number: int, pipe: Connection) -> Summary:
    logger = logging.getLogger("swath")
    logger.addHandler(LogForwarder(pipe, asyncio.get_running_loop()))
    logger.propagate = False
    with open_run_log(settings.log, secrets=find_secrets(settings), warn=False) as run_log:
        observer = run_log.observer
        async with swath.open(settings.store_url, create=False, observer=observer) as frontier:
            run_log.worker = frontier.worker
            job = CrawlJob(settings, frontier, number=number, observer=observer, owns_process=True)
            summary = await _crawl_and_report(job, pipe)
    if job.lifespan_hangs:
        _send(pipe, "summary", summary)
        leave_process(0)
    return summary


async def _crawl_and_report(job: CrawlJob, pipe: Connection) -> Summary:
    loop = asyncio.get_running_loop()
    job.stop.acknowledged = True  # by the parent

    def receive() -> None:
        try:
            job.stop.request(pipe.recv())
        except (EOFError, OSError):
            loop.remove_reader(pipe.fileno())
            job.stop.request("parent process exited")

    def send_stats(rate: float) -> None:
        _send(pipe, "stats", ({**job.stats.as_dict(), "rate": rate}, job.monitor.states, job.monitor.errors))

    async def report() -> None:
        while True:
            send_stats(job.stats.rate())
            await asyncio.sleep(REPORT_SECONDS)

    loop.add_signal_handler(signal.SIGTERM, job.stop.request, "SIGTERM")  # a service manager signals all processes
    loop.add_reader(pipe.fileno(), receive)
    reporting = loop.create_task(report())
    try:
        return await job.run()
    finally:
        reporting.cancel()
        loop.remove_reader(pipe.fileno())
        send_stats(0.0)


def _find_common_error_type(types: Iterable[type[SwathError]]) -> type[SwathError]:
    """Return the family that all these errors belong to, or ChildFailed."""
    found = list(types)
    return next((one for one in ERROR_FAMILIES if all(issubclass(each, one) for each in found)), ChildFailed)


def _sum_summaries(summaries: Sequence[Summary]) -> Summary:
    reasons = {summary.stopped_by for summary in summaries}
    return Summary(
        **{name: sum(getattr(summary, name) for summary in summaries) for name in SUMMED},
        seconds=max((summary.seconds for summary in summaries), default=0.0),
        stopped_by=min(reasons - {"done"}, default="done"),
        errors=dict(sum((Counter(summary.errors) for summary in summaries), Counter())),
    )


def merge_states(states: Sequence[Sequence[RunState]]) -> list[RunState]:
    """Return the states of several processes: those of any process, and IDLE ones if all processes are idle.

    Of two processes in the same state, the one that has been in it for longer describes it.
    """
    idle = all(any(state.name in IDLE for state in one) for one in states)
    longest: dict[str, RunState] = {}
    for state in sorted((state for one in states for state in one), key=lambda state: -state.seconds):
        if idle or state.name not in IDLE:
            longest.setdefault(state.name, state)
    return list(longest.values())


def sum_errors(errors: Iterable[HandlerError]) -> list[HandlerError]:
    """Add up the errors of several processes by text, the most frequent first."""
    total: dict[str, HandlerError] = {}
    for error in errors:
        known = total.get(str(error))
        total[str(error)] = error if known is None else replace(known, count=known.count + error.count)
    return sorted(total.values(), key=lambda error: -error.count)
