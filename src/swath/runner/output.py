"""Output and Sink: what a run does with the `output` and the `rows` of outcomes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from swath.core.item import Dead, Item
from swath.core.store import OutputMove

# A sink is called with a connection that has an open transaction, and the rows of a settlement in order.
Sink = Callable[[Any, Sequence[Any]], Awaitable[None] | None]

# Returns the outcome of an item whose row the database refuses, from the item, its output entry and the message.
OnRefused = Callable[[Item, Any, str], Dead]


class Output(Protocol):
    """Files of one process that grow with the settlements of a run and hold exactly what was settled (INV-5).

    A handler passes entries with `item.done(output=entry)`; the handler and the output agree on what an entry is. The
    runner calls `write` and `restore` in a thread, never two at once. No other process writes to the files.
    """

    def size(self, entry: Any) -> int:
        """Return how many bytes of memory an entry takes while it waits to be written."""
        ...

    def write(self, settlements: Sequence[Sequence[Any]]) -> Sequence[Sequence[OutputMove]]:
        """Append the entries of each settlement in order, make them durable, and return how each made files grow.

        If the disk is full, remove what was written and raise OutputFull: the runner waits and calls `write` again. Any
        other exception ends the run: nothing more is written, and the items of unwritten entries are released.
        """
        ...

    def keep(self) -> None:
        """Note that everything written is committed. The runner calls this in the event loop."""
        ...

    def restore(self, committed: Mapping[str, int]) -> None:
        """Truncate the files to the committed lengths, and delete files that the store does not know."""
        ...
