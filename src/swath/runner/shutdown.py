"""Stop a run: `Stop`, and the signals that trigger it."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SIGNAL_NAMES = tuple(number.name for number in SIGNALS)

# Called inside the signal handler with the name of the signal, and with whether it is the first.
SignalCallback = Callable[[str, bool], None]


class Stop:
    """A way to stop a run from outside: pass it as `run(stop=…)`. Use it in the thread of the run's event loop."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.abort_error: BaseException | None = None
        self.acknowledged = False  # whether the caller has answered the signal, so that the run need not log it
        self.on_change: Callable[[], None] = lambda: None  # set by the run that listens

    def request(self, reason: str) -> None:
        """Ask for a clean stop: start nothing new, finish or release the items in flight."""
        if self.reason is None:
            self.reason = reason
            self.on_change()

    def abort(self, error: BaseException) -> None:
        """End the run at once with `error`. Other workers take over the items in flight when their leases end."""
        if self.abort_error is None:
            self.abort_error = error
            self.on_change()


class _Listener:
    """A `Stop` that signals trigger, and the event loop that it belongs to."""

    def __init__(
        self, stop: Stop, loop: asyncio.AbstractEventLoop, on_signal: SignalCallback | None, *, in_loop_thread: bool
    ) -> None:
        self.stop = stop
        self.on_signal = on_signal
        self.loop = loop
        self.in_loop_thread = in_loop_thread
        self.signals = count()  # atomic: a signal may arrive while another is being handled
        self.delivered = False  # whether the loop has got the request; a handler that blocks the loop delays it

    def request(self, reason: str) -> None:
        self.loop.call_soon_threadsafe(self._deliver, reason)

    def acknowledge(self, name: str, *, first: bool) -> None:
        if self.on_signal is not None:
            self.stop.acknowledged = True
            self.on_signal(name, first)

    def _deliver(self, reason: str) -> None:
        self.delivered = True
        self.stop.request(reason)


# A process has one handler for each signal and may have several runs at once. The first run installs the handler, and
# the last one restores what was there before. Only the main thread touches these two.
_listeners: list[_Listener] = []
_previous_handlers: dict[signal.Signals, Any] = {}


@contextmanager
def stop_on_signals(
    stop: Stop,
    loop: asyncio.AbstractEventLoop,
    *,
    on_signal: SignalCallback | None = None,
    in_loop_thread: bool = True,
) -> Iterator[None]:
    """Request a clean stop on the first SIGINT or SIGTERM, and abort the run on the second.

    The second signal ends the run with KeyboardInterrupt or, for SIGTERM, SystemExit(143), and restores the previous
    signal handlers. Otherwise they are restored when the block ends. If several runs of a process are in such a block,
    one signal stops them all.

    Python delivers signals to the main thread, so this does nothing in any other thread. A signal that the process
    ignores, as under `nohup` or in a background job, stays ignored. A signal with a handler that was not
    installed from Python is not handled, because Python could not restore that handler.

    `on_signal(name, first)` is called inside the signal handler, at once, even if something blocks the loop. It may
    interrupt any statement, so it must not wait or take locks. Without it, the run logs that it stops.

    Pass `in_loop_thread=False` if `loop` runs in another thread than the one that enters the block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    listener = _Listener(stop, loop, on_signal, in_loop_thread=in_loop_thread)
    _listeners.append(listener)
    try:
        _install_handlers()
        yield
    finally:
        _listeners.remove(listener)
        if not _listeners:
            _restore_handlers()


def _install_handlers() -> None:
    if not _previous_handlers:
        _previous_handlers.update(
            {n: signal.getsignal(n) for n in SIGNALS if signal.getsignal(n) not in (signal.SIG_IGN, None)}
        )
        for number in _previous_handlers:
            signal.signal(number, _handle_signal)


def _restore_handlers() -> None:
    for number, handler in _previous_handlers.items():
        signal.signal(number, handler)
    _previous_handlers.clear()


def _handle_signal(number: int, frame: FrameType | None) -> None:
    listeners = [listener for listener in _listeners if not listener.loop.is_closed()]
    signalled_before = []
    name = signal.Signals(number).name
    for listener in listeners:
        first = not next(listener.signals)
        listener.acknowledge(name, first=first)
        if first:
            listener.request(name)
        else:
            signalled_before.append(listener)
    if listeners and not signalled_before:
        return
    _restore_handlers()
    if not listeners:
        signal.raise_signal(number)  # the last run ended just before the signal arrived
        return
    error = KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
    for listener in signalled_before:
        if listener.delivered:
            listener.loop.call_soon_threadsafe(listener.stop.abort, error)
        else:
            listener.stop.abort_error = error  # without `on_change`: the error below ends the loop
    if not all(listener.delivered and listener.in_loop_thread for listener in signalled_before):
        raise error  # a handler blocks the loop, or this thread only waits for the loop
