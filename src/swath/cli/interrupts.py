"""Ctrl-C and SIGTERM in commands that run for long: an answer at once, and an end to what has not started."""

import asyncio
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rich.file_proxy import FileProxy

from swath import Stop
from swath.cli.formatting import escape, pluralize
from swath.cli.terminal import is_terminal, print_error

AGAIN = "Ctrl-C again leaves now"


class SignalAnswer:
    """Says on standard error what a signal does. Pass it to `stop_on_signals(on_signal=…)`.

    `count_in_flight` is set once there is something that a stop waits for.
    """

    def __init__(self, what: str, *, noun: str, stop_seconds: float, lease_seconds: float, quiet: bool = False) -> None:
        self.count_in_flight: Callable[[], int] | None = None
        self._what = what
        self._noun = noun
        self._stop_seconds = math.ceil(stop_seconds)
        self._lease_seconds = math.ceil(lease_seconds)
        self._quiet = quiet
        self._loop = asyncio.get_running_loop()

    def __call__(self, name: str, first: bool) -> None:
        if not self._quiet:
            print_at_once(self._describe_stop() if first else self._describe_leaving(), self._loop)

    def _describe_stop(self) -> str:
        if self.count_in_flight is None:
            return f"stopping: {self._what} has not started; {AGAIN}"
        in_flight = pluralize(self.count_in_flight(), self._noun)
        return f"stopping: {in_flight} in flight, at most {self._stop_seconds} s; {AGAIN}"

    def _describe_leaving(self) -> str:
        number = 0 if self.count_in_flight is None else self.count_in_flight()
        if not number:
            return "leaving now"
        come = "comes back when its lease ends" if number == 1 else "come back when their lease ends"
        return f"leaving now: {pluralize(number, self._noun)} in flight {come}, after at most {self._lease_seconds} s"


def print_at_once(message: str, loop: asyncio.AbstractEventLoop) -> None:
    """Print a line to standard error from inside a signal handler.

    The handler may have interrupted a print, so write to the file itself. A live display would be broken by that; while
    there is one, the loop is alive and prints the line above it.
    """
    if isinstance(sys.stderr, FileProxy):
        loop.call_soon_threadsafe(print_error, message)
    elif sys.stderr is not None:
        start = "\r" if is_terminal(sys.stderr) else ""  # over the ^C that the terminal has echoed
        with suppress(OSError, ValueError):
            os.write(sys.stderr.fileno(), f"{start}swath: {escape(message)}\n".encode())


@contextmanager
def cancel_on_stop(stop: Stop) -> Iterator[None]:
    """Cancel the block when a stop is requested, and raise KeyboardInterrupt. For work that can begin again."""
    task = asyncio.current_task()
    assert task is not None

    def cancel() -> None:
        task.cancel()

    stop.on_change = cancel
    try:
        yield
    except asyncio.CancelledError:
        if stop.reason is None:
            raise
        raise KeyboardInterrupt from None
    finally:
        stop.on_change = lambda: None
