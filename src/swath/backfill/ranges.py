"""The payloads of a backfill's items: planning steps and slices of the table.

A planning step settles with the slices it found and the next step. All items share one lane, so a worker claims the
next step once the slices before it are claimed: a table with a billion rows is planned while it is processed.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from swath import Item
from swath.tables.table import Key

LANE = "slices"
BEGIN = "begin"  # the key of the first step, whose payload describes the backfill
END = "end"  # the fact that records where planning ended; a later run with --follow continues there
SPAN = 2**20  # positions reserved for a slice: the number of times it can be split
STEP, SLICE = "step ", "slice "
MAX_KEY_TEXT = 60  # characters of a table key inside an item's key


class PlanStep(NamedTuple):
    """Where planning continues."""

    number: int  # of the next slice
    after: Key | None
    upto: Key | None  # where planning ends; None: the table is empty so far
    size: int  # rows per slice
    before: int  # rows in the slices so far
    safe: dict[str, Any] | None = None  # with --follow: the transactions to wait for before planning more

    def to_first_item(self, about: dict[str, Any]) -> Item:
        """Return the first step's item, which describes the backfill. The first process to add it wins."""
        return Item(BEGIN, LANE, payload=self._asdict() | {"kind": "step", "about": about})

    def to_item(self) -> Item:
        return Item(f"{STEP}{self.number} {self.poll}", LANE, payload=self._asdict() | {"kind": "step"})

    def to_resumed_item(self) -> Item:
        """Return an item that continues planning after it had ended. Its key is new each time."""
        return self._replace(safe={"poll": self.poll + 1}).to_item()

    @property
    def poll(self) -> int:
        """How often this step has looked for new rows. Makes its key unique."""
        return 0 if self.safe is None else self.safe.get("poll", 0)


class Slice(NamedTuple):
    """The rows whose keys are in (lo, hi]. After a split, the remaining part of them."""

    number: int
    start: Key | None  # `lo` as planned
    lo: Key | None
    hi: Key
    rows: int  # as planned
    before: int  # rows in the slices before this one

    def to_item(self) -> Item:
        """Return the slice's item. Its key shows the range to people; the number alone makes it unique."""
        first = "start" if self.lo is None else format_key(self.lo)
        key = f"{SLICE}{self.number}: {first} to {format_key(self.hi)}"
        return Item(key, LANE, payload=self._asdict() | {"kind": "slice"}, span=SPAN)


Work = PlanStep | Slice
_KEYS = ("start", "lo", "hi", "after", "upto")


def parse_work(payload: dict[str, Any]) -> Work:
    """Return the planning step or slice in an item's payload."""
    fields: dict[str, Any] = {name: to_key(value) if name in _KEYS else value for name, value in payload.items()}
    if payload["kind"] == "slice":
        return Slice(**{name: fields[name] for name in Slice._fields})
    return PlanStep(**{name: fields[name] for name in PlanStep._fields})


def format_key(key: Key) -> str:
    """Return a table key as short printable text."""
    text = str(key[0]) if len(key) == 1 else json.dumps(key, ensure_ascii=False)
    text = text.encode("utf-8", "backslashreplace").decode().replace("\0", "")
    return text if len(text) <= MAX_KEY_TEXT else f"{text[:MAX_KEY_TEXT]}…"


def to_key(value: Sequence[Any] | None) -> Key | None:
    """Convert a key from its JSON form."""
    return None if value is None else tuple(value)
