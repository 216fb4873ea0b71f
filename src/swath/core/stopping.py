"""Stop: the wish to end a run, first cleanly and then at once; and the signals that express it."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

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


@contextmanager
def stopped_by_signals(stop: Stop, loop: asyncio.AbstractEventLoop, *, in_loop_thread: bool = True) -> Iterator[None]:
    """The first SIGINT or SIGTERM asks for a clean stop, the second ends the run at once: with KeyboardInterrupt or,
    for SIGTERM, SystemExit(143). From then on, and afterwards, signals do what they did before.

    Python hands signals to the main thread only; in any other this does nothing. A signal that the process was told to
    ignore, as `nohup` and shells do for jobs in the background, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN}
    received = 0
    heard = False

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def first(name: str) -> None:
        nonlocal heard
        heard = True
        stop.ask(name)

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal received
        received += 1
        if received == 1:
            loop.call_soon_threadsafe(first, signal.Signals(number).name)
            return
        restore()
        error = KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
        if heard:
            loop.call_soon_threadsafe(stop.now, error)
        if not (heard and in_loop_thread):
            raise error  # a handler blocks the loop, or this thread only waits for it

    try:
        for number in before:
            signal.signal(number, on_signal)
        yield
    finally:
        restore()
