"""CheckSlots: limit how many threads check records at once, while others read ahead."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class SlotHolder(Protocol):
    """An object that waits for a slot or holds one."""

    waiting: bool
    abandoned: bool


class CheckSlots:
    """A fixed number of slots. The slot of a holder that hangs can be taken away."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._changed = threading.Condition()
        self._taken: set[int] = set()

    @contextmanager
    def hold(self, holder: SlotHolder) -> Iterator[None]:
        """Wait for a slot, blocking this thread, and hold it in the block."""
        holder.waiting = True
        with self._changed:
            self._changed.wait_for(lambda: holder.abandoned or len(self._taken) < self._number)
            self._taken.add(id(holder))
        holder.waiting = False
        try:
            yield
        finally:
            self.release(holder)

    def release(self, holder: SlotHolder) -> None:
        """Free the slot of a holder that has finished or hangs."""
        with self._changed:
            self._taken.discard(id(holder))
            self._changed.notify_all()
