"""An observer that a test can wait on."""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from swath.core.events import Event

Kind = TypeVar("Kind", bound=Event)

PATIENCE = 20.0  # seconds after which a test that waits in vain fails


class Recorder:
    """Keeps every event, and wakes whoever waits for one."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._more = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self._more.set()

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.events if isinstance(event, kind)]

    async def saw(self, kind: type[Kind], count: int = 1) -> list[Kind]:
        """Wait until there were `count` events of a kind."""
        await self.until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until an event makes a condition true."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._more.clear()
                await self._more.wait()


class LogRecorder(logging.Handler):
    """Keeps what swath logs, and wakes whoever waits for a text in it."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []
        self._more = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self._more.set()

    def of(self, text: str) -> list[str]:
        return [line for line in self.lines if text in line]

    async def saw(self, text: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while not self.of(text):
                self._more.clear()
                await self._more.wait()
