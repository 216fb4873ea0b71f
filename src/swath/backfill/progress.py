"""Progress: how far a backfill is, as its frontier tells anybody who asks."""

import math
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from swath import DeadItem, PendingItem
from swath.backfill.ranges import BEGIN, LANE, Slice, Work, key, work_of
from swath.frontier import Frontier
from swath.tables.table import Key


class Progress(NamedTuple):
    """What is covered: everything up to `key`, and `rows` as they were planned."""

    about: dict[str, Any]  # what the backfill does, as it was begun
    key: Key | None  # None: nothing yet
    upto: Key | None
    rows: int
    open: int  # slices planned and not covered
    dead: int
    over: bool
    share: float | None  # of the whole, where that can be told


async def about(frontier: Frontier) -> dict[str, Any] | None:
    """What the backfill of a frontier does; None if it is none."""
    explanation = await frontier.explain(BEGIN, lane=LANE)
    payload = explanation.data.get("payload")
    return payload["about"] if isinstance(payload, dict) and "about" in payload else None


async def progress(frontier: Frontier) -> Progress | None:
    """How far the backfill of a frontier is; None if it is none."""
    told = await about(frontier)
    if told is None:
        return None
    # Those that died or were opened again meanwhile are in one of the three.
    dead = await _works(frontier.dead())
    works = await _works(frontier.pending())
    dead_now = await _works(frontier.dead())
    return summed_up(told, works, [*dead, *dead_now])._replace(dead=len(dead_now))


async def _works(items: AsyncIterator[DeadItem] | AsyncIterator[PendingItem]) -> list[Work]:
    """Those of the backfill, in whose frontier somebody may have put other items."""
    return [work_of(item.payload) async for item in items if item.lane == LANE]


def summed_up(told: dict[str, Any], works: list[Work], dead: list[Work]) -> Progress:
    """The lowest number is where the backfill is, not the lowest position: a slice that was opened again has a new one,
    behind the others."""
    upto = key(told["upto"])
    first = min([*works, *dead], key=lambda work: work.number, default=None)
    if first is None:
        return Progress(told, upto, upto, told["rows"] or 0, 0, 0, True, 1.0)
    reached = first.lo if isinstance(first, Slice) else first.after
    share = _share(told, reached)
    if share is None and told["rows"]:
        share = min(0.99, first.before / told["rows"])
    return Progress(
        about=told,
        key=reached,
        upto=upto,
        rows=first.before,
        open=sum(isinstance(work, Slice) for work in works),
        dead=len(dead),
        over=False,
        share=share,
    )


def _share(told: dict[str, Any], reached: Key | None) -> float | None:
    """How far a key is between the first and the last, where keys are such that one can tell."""
    first, last = told["first_key"], told["upto"]
    if reached is None:
        return 0.0
    if first is None or last is None:
        return None
    readers = _READERS[1:] if told["text_key"] else _READERS
    low, here, high = (_number(value[0], readers) for value in (first, reached, last))
    if low is None or here is None or high is None or high <= low:
        return None
    return max(0.0, min(1.0, (here - low) / (high - low)))


def _number(value: Any, readers: Sequence[Callable[[Any], float]]) -> float | None:
    for read in readers:
        try:
            number = float(read(value))
        except (TypeError, ValueError, AttributeError, OverflowError):
            continue
        return number if math.isfinite(number) else None
    return None


_READERS: Sequence[Callable[[Any], float]] = (
    float,  # first: texts that look like numbers are not in the order of numbers, those of the others are
    lambda text: datetime.fromisoformat(text).timestamp(),
    lambda text: uuid.UUID(text).int,
)
