"""Counts that are exact after any crash and over all machines: they are committed with each settlement.

The store keeps, with every settlement, numbers that only grow, under names: the lengths of output files. A count is
such a number, so it is right to the record without anything being counted again.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_CODES = 200  # of a process that are counted apart
OTHERS = "(others)"
FILE = "file"
PLAIN = ("items", "records", "bytes", "skipped", "rechecked")  # counts that have no code


def file_name(out: str) -> str:
    """The name under which the store keeps the length of a file of findings."""
    return json.dumps([out, FILE])


def is_file(name: str) -> bool:
    return bool(json.loads(name)[1] == FILE)


@dataclass(slots=True)
class Counts:
    """What was looked at, and what was found, by code."""

    items: int = 0
    records: int = 0
    bytes: int = 0
    skipped: int = 0
    rechecked: int = 0
    opened: Counter[str] = field(default_factory=Counter)
    closed: Counter[str] = field(default_factory=Counter)  # of those opened: fixed or resolved later
    fixed: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Counts") -> None:
        for name in PLAIN:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, theirs in ((self.opened, other.opened), (self.fixed, other.fixed)):
            for code, number in theirs.items():
                mine[code if code in mine or len(mine) < MAX_CODES else OTHERS] += number
        for code, number in other.closed.items():  # under the name that it was opened by
            self.closed[code if code in self.opened else OTHERS] += number

    def _by_code(self) -> tuple[Counter[str], Counter[str], Counter[str]]:
        return self.opened, self.closed, self.fixed

    @property
    def open(self) -> Counter[str]:
        """What is open now, by code."""
        left = self.opened.copy()
        left.subtract(self.closed)
        return +left

    def judged(self, states: Counter[tuple[str, str]], before: Mapping[str, int]) -> None:
        """Count the words on one record: numbers by state and code, and what was open on it before."""
        for code in {code for _, code in states} | before.keys():
            change = states["open", code] - before.get(code, 0)
            if change > 0:
                self.opened[code] += change
            elif change < 0:
                self.closed[code] -= change
            if states["fixed", code]:
                self.fixed[code] += states["fixed", code]

    # as the store keeps them

    def named(self, out: str) -> dict[str, int]:
        named = {json.dumps([out, name]): getattr(self, name) for name in PLAIN}
        for name, counter in zip(("opened", "closed", "fixed"), self._by_code(), strict=True):
            named |= {json.dumps([out, name, code]): number for code, number in counter.items()}
        return {name: number for name, number in named.items() if number}


def counted(committed: Mapping[str, int], *, out: str | None = None) -> Counts:
    """The counts of one output, or of all."""
    counts = Counts()
    for name, number in committed.items():
        of, what, *code = json.loads(name)
        if what == FILE or out not in (None, of):
            continue
        if code:
            getattr(counts, what)[code[0]] += number
        else:
            setattr(counts, what, getattr(counts, what) + number)
    return counts
