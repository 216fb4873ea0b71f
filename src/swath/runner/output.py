"""Output: files that grow with the settlements of a run, and hold exactly what was settled (INV-5, rule 6)."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from swath.core.store import OutputMove


class Output(Protocol):
    """The files of one process, which nobody else writes to.

    A handler hands in entries, `item.done(output=entry)`; what an entry is, is between it and the output. The runner
    calls `write` and `restore` one at a time, in a thread.
    """

    def size(self, entry: Any) -> int:
        """Bytes of memory that an entry takes while it waits."""
        ...

    def write(self, settlements: Sequence[Sequence[Any]]) -> Sequence[Sequence[OutputMove]]:
        """Append the entries of each settlement, in order, and make them durable. Return how each made files grow.

        What it raises ends the run: nothing more is written, and the items whose entries were not are given back.
        """
        ...

    def keep(self) -> None:
        """All that was written is committed. Called in the event loop."""
        ...

    def restore(self, committed: Mapping[str, int]) -> None:
        """Cut the files to the lengths that the store holds; a file that it does not know goes away."""
        ...
