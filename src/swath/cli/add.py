"""`swath add`: add items by key from arguments, a file or standard input."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer

from swath import DEFAULT_LANE, DEFAULT_PRIORITY, Frontier, SwathError, UsageError
from swath.cli.add_input import STANDARD_INPUT, InputFormat, InputSource, Interrupt, ItemDefaults, ItemReader
from swath.cli.add_progress import AddProgress
from swath.cli.command import check_lane, open_frontier, run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.formatting import pluralize
from swath.cli.options import (
    ConcurrencyOption,
    JSONOption,
    MinIntervalOption,
    PartitionsOption,
    StoreOption,
    get_concurrency,
)
from swath.cli.parsers import parse_json, parse_time_or_duration
from swath.cli.terminal import print_error, print_json, print_line


class LaneBy(StrEnum):
    host = "host"


def add(
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY...]", show_default=False, help="Keys of items; - or no key reads standard input"),
    ] = None,
    store: StoreOption = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", show_default=False, help="File with one key on each line"),
    ] = None,
    jsonl: Annotated[
        bool,
        typer.Option(
            "--jsonl",
            help='Read JSON objects instead of keys: {"key", "lane", "priority", "payload", "not_before"}',
        ),
    ] = False,
    lane: Annotated[
        str | None,
        typer.Option("--lane", metavar="NAME", show_default=DEFAULT_LANE, help="Lane of the items"),
    ] = None,
    lane_by: Annotated[
        LaneBy | None,
        typer.Option(
            "--lane-by",
            metavar="host",
            show_default=False,
            help="Use the host of each key, which must be a URL, as its lane",
        ),
    ] = None,
    priority: Annotated[
        int, typer.Option("--priority", min=0, max=7, metavar="LEVEL", help="Priority from 0 to 7, highest first")
    ] = DEFAULT_PRIORITY,
    payload: Annotated[
        Any,
        typer.Option("--payload", parser=parse_json, metavar="JSON", show_default=False, help="Payload of each item"),
    ] = None,
    not_before: Annotated[
        Any,
        typer.Option(
            "--not-before",
            parser=parse_time_or_duration,
            metavar="TIME",
            show_default=False,
            help="Earliest start: a time like 2030-01-31T12:00:00Z, or a duration from now like 10m",
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip bad lines instead of stopping at the first one")
    ] = False,
    partitions: PartitionsOption = None,
    min_interval: MinIntervalOption = None,
    concurrency: ConcurrencyOption = None,
    json: JSONOption = False,
) -> None:
    """Add items by key, from arguments, a file or standard input.

    A lane holds each key once, so running the command again adds only what is missing. If the frontier does not exist,
    it is created; if it exists, --min-interval and --concurrency change its defaults. Input of any length is read in
    bounded memory. Blank lines are skipped. The first bad line ends the command: the lines before it are added.

    Examples:
        swath add key-1 key-2 --store sqlite:///work.db
        swath add --lane-by host --min-interval 2s --file urls.txt
        swath add --jsonl --file items.jsonl --skip-bad
    """
    defaults = ItemDefaults(
        lane=lane,
        lane_by_host=lane_by is not None,
        priority=priority,
        payload=None if payload is None else payload.value,
    )
    settings = {"partitions": partitions, "min_interval": min_interval, "concurrency": get_concurrency(concurrency)}
    work = _add(store, keys or [], file, defaults, not_before, settings, InputFormat(jsonl, skip_bad), json=json)
    run_command(store, work)


async def _add(
    store: str | None,
    keys: Sequence[str],
    file: str | None,
    defaults: ItemDefaults,
    not_before: datetime | float | None,
    settings: Mapping[str, Any],
    format: InputFormat,
    *,
    json: bool,
) -> int:
    if defaults.lane is not None:
        check_lane(defaults.lane)
        if defaults.lane_by_host:
            raise UsageError("--lane and --lane-by exclude each other: give only one of them")
    if format.jsonl and any(key != STANDARD_INPUT for key in keys):
        raise UsageError(
            "--jsonl applies to --file and standard input, but keys were given as arguments: leave one of them out"
        )
    with ExitStack() as stack:
        sources = open_sources(keys, file, stack)
        async with open_frontier(store, create=True, **settings) as frontier:
            defaults = replace(defaults, not_before=await _resolve_not_before(frontier, not_before))
            interrupt = Interrupt()
            reader = ItemReader(sources, defaults, format, check=frontier.encode, interrupt=interrupt)
            add_run = _AddRun(reader, AddProgress(total_bytes=_measure(sources)))
            with interrupt.catch():
                await add_run.run(frontier)
    return add_run.report(json=json, stopped=interrupt.received)


def open_sources(keys: Sequence[str], file: str | None, stack: ExitStack) -> list[InputSource]:
    """Return the sources in this order: arguments, the file, standard input."""
    sources = []
    given = [key for key in keys if key != STANDARD_INPUT]
    if given:
        sources.append(InputSource("the arguments", keys=given))
    if file is not None and file != STANDARD_INPUT:
        try:
            fd = os.open(file, os.O_RDONLY)
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error
        stack.callback(os.close, fd)
        sources.append(InputSource(file, fd=fd))
    if len(given) < len(keys) or file == STANDARD_INPUT or not sources:
        if sys.stdin is None:
            raise UsageError("standard input is closed: give keys as arguments or with --file FILE")
        if not sources and not keys and file is None and sys.stdin.isatty():
            raise UsageError("no keys: give them as arguments, with --file FILE, or on standard input")
        sources.append(InputSource("standard input", fd=sys.stdin.fileno()))
    return sources


async def _resolve_not_before(frontier: Frontier, given: datetime | float | None) -> datetime | None:
    """Return a time; a duration counts from now by the store's clock."""
    if not isinstance(given, float):
        return given
    return (await frontier.status()).now + timedelta(seconds=given)


class _AddRun:
    """One run of `swath add`: reads batches, adds them and reports the result."""

    def __init__(self, reader: ItemReader, progress: AddProgress) -> None:
        self._reader = reader
        self._progress = progress

    async def run(self, frontier: Frontier) -> None:
        with self._progress:
            try:
                async for batch in self._reader.read_batches():
                    added = await frontier.add(batch)
                    self._progress.advance(read=len(batch), added=added, bytes_read=self._reader.bytes_read)
                    self._report_skipped()
            except SwathError as error:
                error.add_note(self._summarize("at least "))
                raise

    def report(self, *, json: bool, stopped: bool) -> int:
        self._report_skipped()
        if self._reader.failure is not None:
            advice = "Fix it and run the command again, or use --skip-bad"
            print_error(f"{self._reader.failure}. {self._summarize()}. {advice}")
            return ExitCode.USAGE
        added, read, bad = self._progress.added, self._progress.read, self._reader.bad
        if json:
            print_json({"added": added, "read": read, "bad": bad, "stopped": stopped})
        else:
            skipped = f", skipped {pluralize(bad, 'bad line')}" if bad else ""
            print_line(f"{'stopped: ' if stopped else ''}{added:,} new of {read:,}{skipped}")
        return ExitCode.INTERRUPTED if stopped else ExitCode.OK

    def _summarize(self, roughly: str = "") -> str:
        return f"Added until then: {roughly}{self._progress.added:,} new of {self._progress.read:,}"

    def _report_skipped(self) -> None:
        for report in self._reader.reports:
            print_error(f"skipped {report}")
        self._reader.reports.clear()


def _measure(sources: Sequence[InputSource]) -> int | None:
    """Return the number of bytes to read, or None if a source is a pipe."""
    total = 0
    for source in sources:
        if source.fd is not None:
            size = os.fstat(source.fd).st_size
            if not size:
                return None
            total += size
    return total or None
