"""Stop: the wish to end a run, first cleanly and then at once; and the signals that express it."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """What a run goes by: why it is to stop, and with what error when it cannot wait. Belongs to the loop's thread."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.at_once: BaseException | None = None
        self.changed: Callable[[], None] = lambda: None  # set by whoever is to be told

    def ask(self, reason: str) -> None:
        """Take no more work; finish or release what is in hand."""
        if self.reason is None:
            self.reason = reason
            self.changed()

    def now(self, error: BaseException) -> None:
        """Leave everything as it is and raise `error`: the leases take care of what was in hand."""
        if self.at_once is None:
            self.at_once = error
            self.changed()


class _Listener:
    """A stop that signals express, and the loop that it belongs to."""

    def __init__(self, stop: Stop, loop: asyncio.AbstractEventLoop, *, in_loop_thread: bool) -> None:
        self.stop = stop
        self.loop = loop
        self.in_loop_thread = in_loop_thread
        self.signals = count()  # in one step: a signal may come while another is being handled
        self.heard = False  # by the loop, which a handler may block

    def ask(self, reason: str) -> None:
        self.loop.call_soon_threadsafe(self._hear, reason)

    def _hear(self, reason: str) -> None:
        self.heard = True
        self.stop.ask(reason)


# A process has one handler for each signal, and perhaps several runs at once: the first to begin installs it, the last
# to end restores what was there. Only the main thread touches these.
_listeners: list[_Listener] = []
_before: dict[signal.Signals, Any] = {}


@contextmanager
def stopped_by_signals(stop: Stop, loop: asyncio.AbstractEventLoop, *, in_loop_thread: bool = True) -> Iterator[None]:
    """The first SIGINT or SIGTERM asks for a clean stop, the second ends the run at once: with KeyboardInterrupt or,
    for SIGTERM, SystemExit(143). From then on, and afterwards, signals do what they did before.

    All runs of the process are asked by the same signal. Python hands signals to the main thread only; in any other
    this does nothing. A signal that the process was told to ignore, as `nohup` and shells do for jobs in the
    background, stays ignored; one that is handled outside of Python, which could not be restored, is left alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    listener = _Listener(stop, loop, in_loop_thread=in_loop_thread)
    _listeners.append(listener)
    try:
        _install()
        yield
    finally:
        _listeners.remove(listener)
        if not _listeners:
            _restore()


def _install() -> None:
    if not _before:
        _before.update({n: signal.getsignal(n) for n in SIGNALS if signal.getsignal(n) not in (signal.SIG_IGN, None)})
        for number in _before:
            signal.signal(number, _on_signal)


def _restore() -> None:
    for number, handler in _before.items():
        signal.signal(number, handler)
    _before.clear()


def _on_signal(number: int, frame: FrameType | None) -> None:
    listeners = [listener for listener in _listeners if not listener.loop.is_closed()]
    again = []
    for listener in listeners:
        if next(listener.signals):
            again.append(listener)
        else:
            listener.ask(signal.Signals(number).name)
    if listeners and not again:
        return
    _restore()
    if not listeners:
        signal.raise_signal(number)  # it came as the last run ended
        return
    error = KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
    for listener in again:
        if listener.heard:
            listener.loop.call_soon_threadsafe(listener.stop.now, error)
    if not all(listener.heard and listener.in_loop_thread for listener in again):
        raise error  # a handler blocks the loop, or this thread only waits for it
