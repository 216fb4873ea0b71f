"""What the items of a backfill are: steps of the planner, and slices of the table.

A planner step settles with the slices that it found and the next step behind them. All are in one lane, so that the
next step is reached when the slices before it are taken: a table of a billion rows is planned as it is worked off.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from swath.core.item import Item
from swath.tables.table import Key

LANE = "slices"
BEGIN = "begin"  # the key of the first step, whose payload tells what the backfill is about
END = "end"  # the fact that tells where planning ended, for somebody who comes later and follows
SPAN = 2**20  # positions of a slice: so often it can be split
STEP, SLICE = "step ", "slice "
MAX_SHOWN = 60  # characters of a key of the table in that of an item


class Step(NamedTuple):
    """Where planning goes on."""

    number: int  # of the next slice
    after: Key | None
    upto: Key | None  # planning ends there; None where there is nothing yet
    size: int  # rows of a slice
    before: int  # rows in the slices so far
    safe: dict[str, Any] | None = None  # in a backfill that follows: what is waited for before it goes further

    def begin(self, about: dict[str, Any]) -> Item:
        """The first step. Whoever adds it first has said what the backfill is about."""
        return Item(BEGIN, LANE, payload=self._asdict() | {"kind": "step", "about": about})

    def item(self) -> Item:
        return Item(f"{STEP}{self.number} {self.safe_number}", LANE, payload=self._asdict() | {"kind": "step"})

    def again(self) -> Item:
        """Planning that had ended, taken up once more: a step of its own, however often that happens."""
        return self._replace(safe={"look": self.safe_number + 1}).item()

    @property
    def safe_number(self) -> int:
        """Tells the steps apart that were taken while there was nothing new."""
        return 0 if self.safe is None else self.safe.get("look", 0)


class Slice(NamedTuple):
    """Rows of the table whose keys are in (lo, hi]. Once it is split, what is left of it."""

    number: int
    start: Key | None  # `lo` when it was planned
    lo: Key | None
    hi: Key
    rows: int  # when it was planned
    before: int  # rows in the slices before it

    def item(self) -> Item:
        """Its key tells its range to whoever lists the dead; the number alone makes it one of its own."""
        first = "the beginning" if self.lo is None else shown(self.lo)
        key = f"{SLICE}{self.number}: {first} to {shown(self.hi)}"
        return Item(key, LANE, payload=self._asdict() | {"kind": "slice"}, span=SPAN)


Work = Step | Slice
_KEYS = ("start", "lo", "hi", "after", "upto")


def work_of(payload: dict[str, Any]) -> Work:
    """What an item is about."""
    fields: dict[str, Any] = {name: key(value) if name in _KEYS else value for name, value in payload.items()}
    if payload["kind"] == "slice":
        return Slice(**{name: fields[name] for name in Slice._fields})
    return Step(**{name: fields[name] for name in Step._fields})


def shown(found: Key) -> str:
    """A key in a few words."""
    text = str(found[0]) if len(found) == 1 else json.dumps(found, ensure_ascii=False)
    text = text.encode("utf-8", "backslashreplace").decode().replace("\0", "")
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def key(value: Sequence[Any] | None) -> Key | None:
    """A key as JSON has it, as a key."""
    return None if value is None else tuple(value)
