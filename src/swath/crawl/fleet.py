"""Fleet: the processes of a crawl on one machine, none of them special, and what they have done together."""

import asyncio
import multiprocessing
import signal
from collections.abc import Coroutine, Iterable, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Final

import uvloop

import swath
from swath.core.errors import SchemaError, StoreFull, StoreUnavailable, SwathError, UsageError
from swath.core.status import Status
from swath.crawl.job import Job
from swath.crawl.settings import CrawlSettings
from swath.crawl.stats import sum_stats
from swath.runner.run import Summary
from swath.runner.shutdown import Stop

REPORT_SECONDS = 0.5
FAMILIES: Final = (UsageError, StoreUnavailable, StoreFull, SchemaError)  # of errors, by what is to be done about them
ADDED_UP = ("done", "retried", "died", "released", "split", "lost", "discovered")


class ChildFailed(SwathError):
    """Every process of the crawl ended with an error, and not all with the same kind of it. While others go on, what
    one held is theirs after its lease."""


def run(work: Coroutine[Any, Any, Summary]) -> Summary:
    """Run a coroutine in the loop that crawls are made for."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        return loop.run(work)


class Fleet:
    """Runs a crawl with as many processes as asked, and knows how far they are."""

    def __init__(self, settings: CrawlSettings, stop: Stop) -> None:
        self._settings = settings
        self._stop = stop
        self._job: Job | None = None
        self._children: list[_Child] = []
        self.failures: list[str] = []  # of processes, while others went on
        self._status: Status | None = None

    def stats(self) -> dict[str, Any]:
        """What all processes have done so far."""
        if self._job is not None:
            return {**self._job.stats.as_dict(), "rate": self._job.stats.rate()}
        return sum_stats([child.stats for child in self._children if child.stats])

    @property
    def status(self) -> Status | None:
        """The whole frontier, a moment ago."""
        return self._job.status if self._job is not None else self._status

    async def run(self) -> Summary:
        if self._settings.processes == 1:
            self._job = Job(self._settings, stop=self._stop)
            return await self._job.run()
        return await self._run_children()

    async def _run_children(self) -> Summary:
        context = multiprocessing.get_context("spawn")  # never forked: an event loop and a database do not survive it
        self._children = [_Child(context, self._settings, number) for number in range(self._settings.processes)]
        self._stop.on_change = self._pass_on
        self._pass_on()
        looking = asyncio.create_task(self._look())
        try:
            await asyncio.gather(*(child.ended() for child in self._children))
        finally:
            looking.cancel()
            for child in self._children:
                child.end()
            await asyncio.gather(looking, return_exceptions=True)
        if self._stop.abort_error is not None:
            raise self._stop.abort_error
        self.failures = [f"process {child.number}: {child.failure}" for child in self._children if child.failure]
        summaries = [child.summary for child in self._children if child.summary is not None]
        if not summaries:
            raise _family(child.kind for child in self._children)("; ".join(self.failures))
        return _together(summaries)

    async def _look(self) -> None:
        async with swath.open(self._settings.store_url, create=False) as frontier:
            while True:
                try:
                    self._status = await frontier.status()
                except swath.StoreUnavailable:
                    pass  # the children say so, and wait
                await asyncio.sleep(REPORT_SECONDS)

    def _pass_on(self) -> None:
        for child in self._children:
            if self._stop.abort_error is not None:
                child.end()
            elif self._stop.reason is not None:
                child.stop(self._stop.reason)


class _Child:
    """A process, seen from its parent."""

    def __init__(self, context: Any, settings: CrawlSettings, number: int) -> None:
        self.number = number
        self.stats: dict[str, Any] = {}
        self.summary: Summary | None = None
        self.failure: str | None = None
        self.kind: type[SwathError] = ChildFailed  # of failure
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_main, args=(settings, number, theirs), name=f"swath-crawl-{number}")
        # A process is born with its parent's mask: Ctrl-C is for the parent, which passes it on. (The tracker that
        # multiprocessing starts with the first process would lift it.)
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._loop = asyncio.get_running_loop()
        self._over = self._loop.create_future()
        self._loop.add_reader(self._pipe.fileno(), self._hear)

    def _hear(self) -> None:
        try:
            while self._pipe.poll():
                kind, value = self._pipe.recv()
                if kind == "stats":
                    self.stats = value
                elif kind == "summary":
                    self.summary = value
                else:
                    self.kind, self.failure = value
        except (EOFError, OSError):
            self._loop.remove_reader(self._pipe.fileno())
            if not self._over.done():
                self._over.set_result(None)

    async def ended(self) -> None:
        await self._over
        await asyncio.to_thread(self._process.join)
        if self.summary is None and self.failure is None:
            self.failure = f"ended with code {self._process.exitcode}"

    def stop(self, reason: str) -> None:
        try:
            self._pipe.send(reason)
        except OSError:
            pass  # it has ended by itself

    def end(self) -> None:
        if self._process.is_alive():
            self._process.kill()


def _main(settings: CrawlSettings, number: int, pipe: Connection) -> None:
    """A child's life. It stops when its parent says so, and when that is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _tell(pipe, "summary", run(_child(settings, number, pipe)))
    except SwathError as error:
        _tell(pipe, "failure", (type(error), str(error)))


def _tell(pipe: Connection, kind: str, value: object) -> None:
    try:
        pipe.send((kind, value))
    except OSError:
        pass  # the parent is gone, and with it whoever wanted to know


async def _child(settings: CrawlSettings, number: int, pipe: Connection) -> Summary:
    loop = asyncio.get_running_loop()
    job = Job(settings, number=number)

    def hear() -> None:
        try:
            job.stop.request(pipe.recv())
        except (EOFError, OSError):
            loop.remove_reader(pipe.fileno())
            job.stop.request("its parent ended")

    async def report() -> None:
        while True:
            _tell(pipe, "stats", {**job.stats.as_dict(), "rate": job.stats.rate()})
            await asyncio.sleep(REPORT_SECONDS)

    loop.add_signal_handler(signal.SIGTERM, job.stop.request, "SIGTERM")  # a service manager sends it to all
    loop.add_reader(pipe.fileno(), hear)
    reporting = loop.create_task(report())
    try:
        return await job.run()
    finally:
        reporting.cancel()
        loop.remove_reader(pipe.fileno())
        _tell(pipe, "stats", {**job.stats.as_dict(), "rate": 0.0})


def _family(kinds: Iterable[type[SwathError]]) -> type[SwathError]:
    """What an error is that stands for all of these."""
    met = list(kinds)
    return next((one for one in FAMILIES if all(issubclass(kind, one) for kind in met)), ChildFailed)


def _together(summaries: Sequence[Summary]) -> Summary:
    added = {name: sum(getattr(summary, name) for summary in summaries) for name in ADDED_UP}
    reasons = {summary.stopped_by for summary in summaries}
    return Summary(
        **added,
        seconds=max((summary.seconds for summary in summaries), default=0.0),
        stopped_by=min(reasons - {"done"}, default="done"),
    )
