"""The input of `swath add`: read keys or JSON lines from arguments, a file or a pipe, and make items of them.

Every line is validated before its batch is added. Unless bad lines are skipped, the first one ends the input: all items
before it are added and none after it.
"""

import asyncio
import difflib
import json
import os
import select
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from types import FrameType
from typing import Any, Literal
from urllib.parse import urlsplit

import typer

from swath import DEFAULT_LANE, DEFAULT_PRIORITY, InvalidItem, Item, UsageError, check_lane
from swath.cli.interrupts import AGAIN, print_at_once
from swath.cli.parsers import parse_time

BLOCK_BYTES = 65_536
ADD_BUFFER = 10_000  # items of one batch
ADD_BYTES = 16_000_000  # of input in one batch
MAX_LINE_BYTES = 4 * 1024 * 1024  # a longer line is rejected before it fills the memory
MAX_REPORTED = 20  # bad lines that are reported one by one; further ones are only counted
STANDARD_INPUT = "-"
FIELDS = ("key", "lane", "priority", "payload", "not_before")


class Interrupt:
    """The first Ctrl-C, which ends the input cleanly. A second one has its usual effect."""

    def __init__(self) -> None:
        self.received = False
        self._wake = asyncio.Event()

    @contextmanager
    def catch(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()

        def handle(number: int, frame: FrameType | None) -> None:
            signal.signal(signal.SIGINT, before)
            print_at_once(f"stopping: what was read so far is being added; {AGAIN}", loop)
            loop.call_soon_threadsafe(self._receive)

        before = signal.signal(signal.SIGINT, handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _receive(self) -> None:
        self.received = True
        self._wake.set()

    async def wait_readable(self, fd: int) -> None:
        """Wait until the file descriptor is readable or Ctrl-C was pressed."""
        loop = asyncio.get_running_loop()
        loop.add_reader(fd, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            loop.remove_reader(fd)
        if not self.received:
            self._wake.clear()


@dataclass(frozen=True, slots=True)
class ItemDefaults:
    """The fields of an item that its line does not give."""

    lane: str | None = None
    lane_by_host: bool = False
    priority: int = DEFAULT_PRIORITY
    payload: Any = None
    not_before: datetime | None = None

    def make_item(self, key: str, *, lane: str | None = None, **fields: Any) -> Item:
        lane = lane or (get_host(key) if self.lane_by_host else self.lane) or DEFAULT_LANE
        defaults = {"priority": self.priority, "payload": self.payload, "not_before": self.not_before}
        return Item(key, lane, **(defaults | fields))

    def parse_item(self, text: str) -> Item:
        """Make an item of a JSON object with a "key" and any other FIELDS."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidItem(f"not JSON ({error})") from None
        if not isinstance(data, dict) or not isinstance(data.get("key"), str):
            raise InvalidItem('not a JSON object with a string "key"')
        for name in data.keys() - set(FIELDS):
            close = difflib.get_close_matches(name, FIELDS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"the fields are {', '.join(FIELDS)}"
            raise InvalidItem(f"unknown field {name!r}: {hint}")
        if data.get("not_before") is not None:
            data["not_before"] = _parse_not_before(data["not_before"])
        lane = data.get("lane")
        if lane is not None:
            check_lane(lane)
        return self.make_item(data.pop("key"), **data)


def _parse_not_before(value: object) -> datetime:
    try:
        return parse_time(value if isinstance(value, str) else repr(value))
    except typer.BadParameter as error:
        raise InvalidItem(f"not_before: {error.message}") from None


def get_host(key: str) -> str:
    """Return the host of a URL, or raise InvalidItem if there is none."""
    try:
        host = urlsplit(key).hostname
    except ValueError:
        host = None
    if not host:
        raise InvalidItem(f"{key[:80]!r} has no host that could be its lane: write a URL, or use --lane NAME")
    return host


@dataclass(frozen=True, slots=True)
class InputFormat:
    """How lines are parsed, and whether bad ones are skipped."""

    jsonl: bool = False
    skip_bad: bool = False


@dataclass(frozen=True, slots=True)
class InputSource:
    """Where lines come from: arguments, or a file descriptor."""

    name: str
    keys: Sequence[str] = ()
    fd: int | None = None

    def describe_line(self, number: int) -> str:
        return f"argument {number}" if self.fd is None else f"line {number:,} of {self.name}"


class Marker(Enum):
    """A value that stands in for a line."""

    IDLE = auto()  # there is nothing to read at the moment
    TOO_LONG = auto()


class ItemReader:
    """Reads items in batches for `Frontier.add`, and records what went wrong."""

    def __init__(
        self,
        sources: Sequence[InputSource],
        defaults: ItemDefaults,
        format: InputFormat,
        *,
        check: Callable[[Item], object],
        interrupt: Interrupt,
    ) -> None:
        self.bad = 0
        self.bytes_read = 0
        self.failure: str | None = None  # the bad line that ended the input
        self.reports: list[str] = []  # bad lines that were not printed yet
        self._sources = sources
        self._defaults = defaults
        self._check = check
        self._format = format
        self._interrupt = interrupt

    async def read_batches(self) -> AsyncIterator[list[Item]]:
        """Yield full batches; if a slow pipe has nothing to read, yield the items so far instead of waiting."""
        batch: list[Item] = []
        full_at = self.bytes_read + ADD_BYTES
        async for item in self._read_items():
            if item is not Marker.IDLE:
                batch.append(item)
            if batch and (item is Marker.IDLE or len(batch) == ADD_BUFFER or self.bytes_read >= full_at):
                yield batch
                batch, full_at = [], self.bytes_read + ADD_BYTES
        if batch:
            yield batch

    async def _read_items(self) -> AsyncIterator[Item | Literal[Marker.IDLE]]:
        for source in self._sources:
            number = 0
            json_lines = self._format.jsonl and source.fd is not None
            make = self._defaults.parse_item if json_lines else self._defaults.make_item
            async for line in self._read_lines(source):
                if line is Marker.IDLE:
                    yield line
                    continue
                number += 1
                try:
                    text = line if isinstance(line, str) else _decode(line, first=number == 1)
                    if source.fd is not None and not text.strip():
                        continue
                    item = make(text)
                    self._check(item)
                except InvalidItem as error:
                    self.bad += 1
                    report = f"{source.describe_line(number)}: {error}"
                    if not self._format.skip_bad:
                        self.failure = report
                        return
                    if self.bad <= MAX_REPORTED:
                        self.reports.append(report)
                    continue
                yield item
                if self._interrupt.received:
                    return

    async def _read_lines(self, source: InputSource) -> AsyncIterator[bytes | str | Marker]:
        if source.fd is None:
            for key in source.keys:
                yield key
            return
        rest, too_long = b"", False
        async for block in self._read_blocks(source):
            if not block:
                yield Marker.IDLE
                continue
            *whole, rest = (rest + block).split(b"\n")
            for line in whole:
                yield Marker.TOO_LONG if too_long else line
                too_long = False
            if len(rest) > MAX_LINE_BYTES:
                rest, too_long = b"", True
        if (rest or too_long) and not self._interrupt.received:
            yield Marker.TOO_LONG if too_long else rest

    async def _read_blocks(self, source: InputSource) -> AsyncIterator[bytes]:
        """Yield blocks as they can be read, and an empty block before each wait."""
        assert source.fd is not None
        while True:
            if not select.select([source.fd], [], [], 0)[0]:
                yield b""
                await self._interrupt.wait_readable(source.fd)
            await asyncio.sleep(0)  # a file is always readable: let the loop handle a signal
            if self._interrupt.received:
                return
            try:
                block = os.read(source.fd, BLOCK_BYTES)
            except OSError as error:
                raise UsageError(f"cannot read {source.name}: {error.strerror}") from error
            if not block:
                return
            self.bytes_read += len(block)
            yield block


def _decode(line: bytes | Literal[Marker.TOO_LONG], *, first: bool) -> str:
    if line is Marker.TOO_LONG:
        raise InvalidItem(f"longer than {MAX_LINE_BYTES // 1024**2} MB: put one key on each line")
    try:
        text = line.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidItem(
            f"not UTF-8 (byte 0x{line[error.start]:02x} at column {error.start + 1}): "
            "convert it first, for example with iconv -f latin1 -t utf-8"
        ) from None
    return text.removesuffix("\r")
