"""`swath add`: keys from arguments, a file or standard input, any number of them."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from swath.cli.add_input import STANDARD_INPUT, Feed, Reading, Recipe, Source, Stop
from swath.cli.add_progress import AddProgress
from swath.cli.command import check_lane, open_frontier, run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.formatting import pluralize
from swath.cli.options import ConcurrencyOption, JSONOption, MinIntervalOption, PartitionsOption, StoreOption
from swath.cli.parsers import parse_json, parse_time_or_duration
from swath.cli.terminal import print_error, print_json
from swath.core.clock import as_datetime, from_datetime, microseconds
from swath.core.errors import SwathError, UsageError
from swath.core.item import DEFAULT_LANE, DEFAULT_PRIORITY
from swath.frontier import Frontier


class LaneBy(StrEnum):
    host = "host"


def add(
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY...]", show_default=False, help="Keys; - or none of them for standard input"),
    ] = None,
    store: StoreOption = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", show_default=False, help="Read keys from a file, one a line"),
    ] = None,
    jsonl: Annotated[
        bool,
        typer.Option(
            "--jsonl",
            help='Lines of --file or standard input are objects: {"key", "lane", "priority", "payload", "not_before"}',
        ),
    ] = False,
    lane: Annotated[
        str | None,
        typer.Option("--lane", metavar="NAME", show_default=DEFAULT_LANE, help="The lane of all"),
    ] = None,
    lane_by: Annotated[
        LaneBy | None,
        typer.Option("--lane-by", metavar="host", show_default=False, help="The lane is the host of the key, a URL"),
    ] = None,
    priority: Annotated[
        int, typer.Option("--priority", min=0, max=7, metavar="LEVEL", help="0 to 7, higher first")
    ] = DEFAULT_PRIORITY,
    payload: Annotated[
        Any,
        typer.Option("--payload", parser=parse_json, metavar="JSON", show_default=False, help="Kept with each item"),
    ] = None,
    not_before: Annotated[
        Any,
        typer.Option(
            "--not-before",
            parser=parse_time_or_duration,
            metavar="MOMENT",
            show_default=False,
            help="Start none before 2030-01-31T12:00:00Z, or for so long: 10m",
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave bad lines out and go on, rather than stop")
    ] = False,
    partitions: PartitionsOption = None,
    min_interval: MinIntervalOption = None,
    concurrency: ConcurrencyOption = None,
    json: JSONOption = False,
) -> None:
    """Add items by key, from arguments, a file or standard input.

    A key enters its lane once: running the same again adds only what is missing. The frontier is created if it is not
    there; --min-interval and --concurrency change the defaults of one that is. Any number of lines is read in bounded
    memory; blank ones are skipped. A bad line ends it: all before it is added, nothing after it.
    """
    recipe = Recipe(
        lane=lane,
        lane_by_host=lane_by is not None,
        priority=priority,
        payload=None if payload is None else payload.value,
    )
    settings = {"partitions": partitions, "min_interval": min_interval, "concurrency": concurrency}
    work = _add(store, keys or [], file, recipe, not_before, settings, Reading(jsonl, skip_bad), json=json)
    run_command(store, work)


async def _add(
    store: str | None,
    keys: Sequence[str],
    file: str | None,
    recipe: Recipe,
    not_before: datetime | float | None,
    settings: Mapping[str, Any],
    reading: Reading,
    *,
    json: bool,
) -> int:
    if recipe.lane is not None:
        check_lane(recipe.lane)
        if recipe.lane_by_host:
            raise UsageError("--lane and --lane-by both name the lane: give one of them")
    if reading.jsonl and any(key != STANDARD_INPUT for key in keys):
        raise UsageError("--jsonl is for lines of --file or standard input: arguments are keys")
    with ExitStack() as stack:
        sources = open_sources(keys, file, stack)
        async with open_frontier(store, create=True, **settings) as frontier:
            recipe = replace(recipe, not_before=await _not_before(frontier, not_before))
            stop = Stop()
            feed = Feed(sources, recipe, reading, partitions=frontier._store.settings.partitions, stop=stop)
            adding = _Adding(feed, AddProgress(total_bytes=_size(sources)))
            with stop.on_interrupt():
                await adding.run(frontier)
    return adding.report(json=json, stopped=stop.asked)


def open_sources(keys: Sequence[str], file: str | None, stack: ExitStack) -> list[Source]:
    """What was named, in this order: arguments, the file, standard input."""
    sources = []
    given = [key for key in keys if key != STANDARD_INPUT]
    if given:
        sources.append(Source("the arguments", keys=given))
    if file is not None and file != STANDARD_INPUT:
        try:
            fd = os.open(file, os.O_RDONLY)
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error
        stack.callback(os.close, fd)
        sources.append(Source(file, fd=fd))
    if len(given) < len(keys) or file == STANDARD_INPUT or not sources:
        if sys.stdin is None:
            raise UsageError("standard input is closed: give keys as arguments or with --file FILE")
        if not sources and not keys and file is None and sys.stdin.isatty():
            raise UsageError("no keys: give them as arguments, with --file FILE, or on standard input")
        sources.append(Source("standard input", fd=sys.stdin.fileno()))
    return sources


async def _not_before(frontier: Frontier, given: datetime | float | None) -> datetime | None:
    """A moment; a length of time counts from now by the store's clock."""
    if not isinstance(given, float):
        return given
    now = (await frontier.status()).now
    return as_datetime(from_datetime(now) + microseconds(given))


class _Adding:
    """One run of `swath add`: the feed, its progress, and what to say of them."""

    def __init__(self, feed: Feed, progress: AddProgress) -> None:
        self._feed = feed
        self._progress = progress

    async def run(self, frontier: Frontier) -> None:
        with self._progress:
            try:
                async for batch in self._feed.batches():
                    added = await frontier.add(batch)
                    self._progress.told(read=len(batch), added=added, bytes_read=self._feed.bytes_read)
                    self._complain()
            except SwathError as error:
                error.add_note(self._so_far("at least "))
                raise

    def report(self, *, json: bool, stopped: bool) -> int:
        self._complain()
        if self._feed.failure is not None:
            advice = "Mend it and run this again, or use --skip-bad"
            print_error(f"{self._feed.failure}. {self._so_far()}, after it nothing. {advice}")
            return ExitCode.USAGE
        added, read, bad = self._progress.added, self._progress.read, self._feed.bad
        if json:
            print_json({"added": added, "read": read, "bad": bad, "stopped": stopped})
        else:
            left_out = f", {pluralize(bad, 'bad line')} left out" if bad else ""
            print(f"{'stopped: ' if stopped else ''}{added:,} new of {read:,}{left_out}")
        return ExitCode.INTERRUPTED if stopped else ExitCode.OK

    def _so_far(self, roughly: str = "") -> str:
        return f"Before it, {roughly}{self._progress.added:,} new of {self._progress.read:,} were added"

    def _complain(self) -> None:
        """Tell of bad lines that were left out."""
        for complaint in self._feed.complaints:
            print_error(f"left out {complaint}")
        self._feed.complaints.clear()


def _size(sources: Sequence[Source]) -> int | None:
    """How many bytes there are to read, where that is known."""
    total = 0
    for source in sources:
        if source.fd is not None:
            size = os.fstat(source.fd).st_size
            if not size:
                return None
            total += size
    return total or None
