"""Turns: how many looks check records at once, while others already read theirs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Waiting(Protocol):
    """Who waits for a turn."""

    waiting: bool
    abandoned: bool


class Turns:
    """So many turns at once. Whoever never gives one back has it taken away."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._changed = threading.Condition()
        self._taken: set[int] = set()

    @contextmanager
    def turn(self, look: Waiting) -> Iterator[None]:
        """Wait for a turn, in a thread, and keep it meanwhile."""
        look.waiting = True
        with self._changed:
            self._changed.wait_for(lambda: look.abandoned or len(self._taken) < self._number)
            self._taken.add(id(look))
        look.waiting = False
        try:
            yield
        finally:
            self.take_away(look)

    def take_away(self, look: Waiting) -> None:
        """Let another have the turn of one that is over, or that hangs."""
        with self._changed:
            self._taken.discard(id(look))
            self._changed.notify_all()
