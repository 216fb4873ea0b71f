"""The seeds of `swath crawl`: read them from arguments, a file or a pipe, and show the progress of long lists."""

import asyncio
import os
import select
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from swath import UsageError
from swath.cli.formatting import pluralize
from swath.cli.progress_line import ProgressLine
from swath.cli.terminal import print_error
from swath.crawl.seed_list import Seed, SeedListParser
from swath.crawl.seeds import READ, SeedRules, read_seeds

BLOCK_BYTES = 65_536
STANDARD_INPUT = "-"


async def read_all_seeds(
    urls: Sequence[str], file: str | None, rules: SeedRules, *, strict: bool
) -> AsyncIterator[Seed]:
    """Yield the seeds of the arguments, then those of the file. Raise UsageError for a bad argument.

    Bad lines of the file are skipped and reported at the end, unless `strict` is set. Raise UsageError if no seed is
    left of those that were given.
    """
    for seed in read_seeds(urls, rules):
        yield seed
    if file is None:
        return
    name = "standard input" if file == STANDARD_INPUT else file
    parser = SeedListParser(name, strict=strict, check=rules.check)
    with _open(file) as fd:
        async for block in _read_blocks(fd, file):
            for seed in parser.feed(block):
                yield seed
    for seed in parser.feed(b"", end=True):
        yield seed
    if parser.skipped:
        _report_skipped(parser)
        if not parser.seeds and not urls:
            raise UsageError(f"nothing to crawl: {name} has no line that can be crawled")


def _report_skipped(parser: SeedListParser) -> None:
    for report in parser.reports:
        print_error(f"skipped {report}")
    lines = pluralize(parser.skipped, "bad line")
    print_error(f"skipped {lines} of {parser.name}, {parser.seeds:,} good; --seeds-strict refuses bad lines")


@contextmanager
def _open(file: str) -> Iterator[int]:
    if file == STANDARD_INPUT:
        if sys.stdin is None:
            raise UsageError("--seeds -: standard input is closed")
        yield sys.stdin.fileno()
        return
    try:
        fd = os.open(file, os.O_RDONLY)
    except (OSError, ValueError) as error:
        raise UsageError(f"--seeds {file}: {getattr(error, 'strerror', None) or error}") from error
    try:
        yield fd
    finally:
        os.close(fd)


async def _read_blocks(fd: int, file: str) -> AsyncIterator[bytes]:
    """Yield blocks as they can be read. Signals are handled between them."""
    while True:
        if select.select([fd], [], [], 0)[0]:
            await asyncio.sleep(0)  # a file is always readable: let the loop handle a signal
        else:
            await _wait_readable(fd)
        try:
            block = os.read(fd, BLOCK_BYTES)
        except OSError as error:
            raise UsageError(f"--seeds {file}: {error.strerror}") from error
        if not block:
            return
        yield block


async def _wait_readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(fd, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(fd)


class SeedProgress:
    """Shows how many seeds were read and queued, on standard error."""

    def __init__(self, *, quiet: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._line = None if quiet else ProgressLine(total=None, clock=clock)
        self._clock = clock
        self._started = clock()
        self._read = 0
        self._queued: int | None = None  # None: seeds are still read

    def __enter__(self) -> Self:
        if self._line is not None:
            self._line.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line is not None:
            self._line.stop()

    @contextmanager
    def hide(self) -> Iterator[None]:
        """Show nothing while the user is asked a question."""
        if self._line is None:
            yield
            return
        self._line.stop()
        try:
            yield
        finally:
            self._line.start()

    def report(self, doing: str, count: int) -> None:
        """Show that `count` seeds were read or queued so far."""
        if doing == READ:
            self._read = count
        else:
            self._started = self._started if count else self._clock()
            self._queued = count
        if self._line is not None:
            seconds = max(self._clock() - self._started, 1e-9)
            self._line.show(f"{self.describe()}, {count / seconds:,.0f} a second")

    def describe(self) -> str:
        """Return how far the seeds were loaded."""
        if self._queued is None:
            return f"{pluralize(self._read, 'seed')} read"
        return f"{self._queued:,} of {pluralize(self._read, 'seed')} queued"
