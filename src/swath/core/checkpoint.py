"""Checkpoint: up to which position a partition is covered (INV-6)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything at or below `position` is settled; of that, `dead` items are dead."""

    partition: int
    position: int
    dead: int
    end: int

    @property
    def lag(self) -> int:
        """How many positions lie between the checkpoint and the end."""
        return self.end - self.position


def halves(span: int) -> tuple[int, int]:
    """The spans of the two parts of a range that is split: they add up, and only of a span of 1 the first is empty."""
    return span // 2, span - span // 2
