"""Counters: named numbers that a settlement changes when it commits, for the whole frontier and for each lane."""

from collections.abc import Iterator, Mapping


class Counters(Mapping[str, int]):
    """The values of some counters, by name.

    Immutable and hashable, so that an Item can carry them, and so that all items without counters share one object.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, int] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, name: str) -> int:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"Counters({self._values!r})"


NO_COUNTERS = Counters()
NO_LANE_COUNTERS: Mapping[str, Mapping[str, int]] = {}
