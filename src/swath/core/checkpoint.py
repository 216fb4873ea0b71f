"""Checkpoint: everything in a partition is settled up to this position (INV-6)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything at or below `position` is settled, and `dead` of these items are dead. `end` is the last position."""

    partition: int
    position: int
    dead: int
    end: int

    @property
    def lag(self) -> int:
        """The number of positions between the checkpoint and the end."""
        return self.end - self.position


def halve_span(span: int) -> tuple[int, int]:
    """Return the spans of the two parts of a split range. Their sum is `span`; the first is 0 only if `span` is 1."""
    return span // 2, span - span // 2
