"""From input to items: lines out of a pipe, a file or the arguments, each checked before anything is added.

A bad line ends the feed, so that everything before it is added and nothing after it.
"""

import asyncio
import difflib
import json
import os
import select
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any, Literal
from urllib.parse import urlsplit

import typer

from swath.cli.parsers import parse_time
from swath.core import codec
from swath.core.errors import InvalidItem, UsageError
from swath.core.item import DEFAULT_LANE, DEFAULT_PRIORITY, Item
from swath.frontier import ADD_BUFFER, ADD_BYTES

BLOCK_BYTES = 65_536
MAX_LINE_BYTES = 4 * 1024 * 1024  # a line without end is refused before it fills the memory
MAX_COMPLAINTS = 20  # bad lines that are told of one by one; more are only counted
STANDARD_INPUT = "-"
FIELDS = ("key", "lane", "priority", "payload", "not_before")


class Stop:
    """Asked for by Ctrl-C; a second one does not wait."""

    def __init__(self) -> None:
        self.asked = False
        self._wake = asyncio.Event()

    @contextmanager
    def on_interrupt(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupted, loop)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    def _interrupted(self, loop: asyncio.AbstractEventLoop) -> None:
        self.asked = True
        self._wake.set()
        loop.remove_signal_handler(signal.SIGINT)

    async def readable(self, fd: int) -> None:
        """Wait until there is something to read, or a stop."""
        loop = asyncio.get_running_loop()
        loop.add_reader(fd, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            loop.remove_reader(fd)
        if not self.asked:
            self._wake.clear()


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an item gets that its line does not say."""

    lane: str | None = None
    lane_by_host: bool = False
    priority: int = DEFAULT_PRIORITY
    payload: Any = None
    not_before: datetime | None = None

    def item(self, key: str, *, lane: str | None = None, **fields: Any) -> Item:
        lane = lane or (host_of(key) if self.lane_by_host else self.lane) or DEFAULT_LANE
        given = {"priority": self.priority, "payload": self.payload, "not_before": self.not_before} | fields
        return Item(key, lane, **given)

    def item_of_json(self, text: str) -> Item:
        """An item from an object such as {"key": "…", "lane": "…", "priority": 3, "payload": …, "not_before": "…"}."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidItem(f"not JSON ({error})") from None
        if not isinstance(data, dict) or not isinstance(data.get("key"), str):
            raise InvalidItem('not an object with a "key" that is a text')
        for name in data.keys() - set(FIELDS):
            close = difflib.get_close_matches(name, FIELDS, n=1)
            raise InvalidItem(f"{name!r} is not known: {f'did you mean {close[0]!r}?' if close else ', '.join(FIELDS)}")
        if data.get("not_before") is not None:
            data["not_before"] = _moment(data["not_before"])
        lane = data.get("lane")
        if lane is not None:
            codec.check_lane(lane)
        return self.item(data.pop("key"), **data)


def _moment(value: object) -> datetime:
    try:
        return parse_time(value if isinstance(value, str) else repr(value))
    except typer.BadParameter as error:
        raise InvalidItem(f"not_before: {error.message}") from None


def host_of(key: str) -> str:
    """The host of a URL."""
    try:
        host = urlsplit(key).hostname
    except ValueError:
        host = None
    if not host:
        raise InvalidItem(f"{key[:80]!r} has no host to make a lane of: write a URL, or use --lane NAME")
    return host


@dataclass(frozen=True, slots=True)
class Reading:
    """How lines are read."""

    jsonl: bool = False
    skip_bad: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """Where lines come from: arguments, or a file descriptor."""

    name: str
    keys: Sequence[str] = ()
    fd: int | None = None

    def place(self, number: int) -> str:
        return f"argument {number}" if self.fd is None else f"line {number:,} of {self.name}"


class Mark(Enum):
    """What comes instead of a line."""

    IDLE = auto()  # nothing to read for now
    TOO_LONG = auto()


class Feed:
    """Items for `Frontier.add`, and how the input went."""

    def __init__(
        self, sources: Sequence[Source], recipe: Recipe, reading: Reading, *, partitions: int, stop: Stop
    ) -> None:
        self.bad = 0
        self.bytes_read = 0
        self.failure: str | None = None  # the bad line at which the feed ended
        self.complaints: list[str] = []  # bad lines not yet told of
        self._sources = sources
        self._recipe = recipe
        self._partitions = partitions
        self._reading = reading
        self._stop = stop

    async def batches(self) -> AsyncIterator[list[Item]]:
        """Items in batches that are full, or all there is for now: a slow pipe keeps nothing waiting."""
        batch: list[Item] = []
        full_at = self.bytes_read + ADD_BYTES
        async for item in self._items():
            if item is not Mark.IDLE:
                batch.append(item)
            if batch and (item is Mark.IDLE or len(batch) == ADD_BUFFER or self.bytes_read >= full_at):
                yield batch
                batch, full_at = [], self.bytes_read + ADD_BYTES
        if batch:
            yield batch

    async def _items(self) -> AsyncIterator[Item | Literal[Mark.IDLE]]:
        for source in self._sources:
            number = 0
            make = self._recipe.item_of_json if self._reading.jsonl and source.fd is not None else self._recipe.item
            async for line in self._lines(source):
                if line is Mark.IDLE:
                    yield line
                    continue
                number += 1
                try:
                    text = line if isinstance(line, str) else _decoded(line, first=number == 1)
                    if source.fd is not None and not text.strip():
                        continue
                    item = make(text)
                    codec.new_item(item, self._partitions)
                except InvalidItem as error:
                    self.bad += 1
                    complaint = f"{source.place(number)}: {error}"
                    if not self._reading.skip_bad:
                        self.failure = complaint
                        return
                    if self.bad <= MAX_COMPLAINTS:
                        self.complaints.append(complaint)
                    continue
                yield item
                if self._stop.asked:
                    return

    async def _lines(self, source: Source) -> AsyncIterator[bytes | str | Mark]:
        if source.fd is None:
            for key in source.keys:
                yield key
            return
        rest, too_long = b"", False
        async for block in self._blocks(source):
            if not block:
                yield Mark.IDLE
                continue
            *whole, rest = (rest + block).split(b"\n")
            for line in whole:
                yield Mark.TOO_LONG if too_long else line
                too_long = False
            if len(rest) > MAX_LINE_BYTES:
                rest, too_long = b"", True
        if (rest or too_long) and not self._stop.asked:
            yield Mark.TOO_LONG if too_long else rest

    async def _blocks(self, source: Source) -> AsyncIterator[bytes]:
        """What can be read, as it comes; an empty block before a wait."""
        assert source.fd is not None
        while True:
            if not select.select([source.fd], [], [], 0)[0]:
                yield b""
                await self._stop.readable(source.fd)
            await asyncio.sleep(0)  # a file is always ready to be read: let an interrupt through
            if self._stop.asked:
                return
            try:
                block = os.read(source.fd, BLOCK_BYTES)
            except OSError as error:
                raise UsageError(f"cannot read {source.name}: {error.strerror}") from error
            if not block:
                return
            self.bytes_read += len(block)
            yield block


def _decoded(line: bytes | Literal[Mark.TOO_LONG], *, first: bool) -> str:
    if line is Mark.TOO_LONG:
        raise InvalidItem(f"longer than {MAX_LINE_BYTES // 1024**2} MB: is it one key a line?")
    try:
        text = line.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidItem(
            f"not UTF-8 (byte 0x{line[error.start]:02x} at column {error.start + 1}): "
            "convert it first, for example with iconv -f latin1 -t utf-8"
        ) from None
    return text.removesuffix("\r")
