"""Progress of a backfill, read from its frontier."""

import math
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from swath import DeadItem, Frontier, PendingItem
from swath.backfill.ranges import BEGIN, LANE, Slice, Work, parse_work, to_key
from swath.tables.table import Key


class Progress(NamedTuple):
    """All rows up to `key` are done, `rows` of them by the plan's count."""

    about: dict[str, Any]  # the description of the backfill from its first item
    key: Key | None  # None: no row yet
    upto: Key | None
    rows: int
    open: int  # slices that are planned and not done
    dead: int
    complete: bool
    share: float | None  # of the whole; None: unknown


async def read_description(frontier: Frontier) -> dict[str, Any] | None:
    """Return the description of a frontier's backfill, or None if the frontier holds something else."""
    explanation = await frontier.explain(BEGIN, lane=LANE)
    payload = explanation.data.get("payload")
    return payload["about"] if isinstance(payload, dict) and "about" in payload else None


async def read_progress(frontier: Frontier) -> Progress | None:
    """Return the progress of a frontier's backfill, or None if the frontier holds something else."""
    about = await read_description(frontier)
    if about is None:
        return None
    # Items may die or be reopened between these calls. Each is in at least one of the three lists.
    dead = await _read_work(frontier.dead())
    pending = await _read_work(frontier.pending())
    dead_now = await _read_work(frontier.dead())
    return summarize(about, pending, [*dead, *dead_now])._replace(dead=len(dead_now))


async def _read_work(items: AsyncIterator[DeadItem] | AsyncIterator[PendingItem]) -> list[Work]:
    """Parse the backfill's items. The user may have added other items to the frontier."""
    return [parse_work(item.payload) async for item in items if item.lane == LANE]


def summarize(about: dict[str, Any], pending: list[Work], dead: list[Work]) -> Progress:
    """Compute the progress from the item with the lowest slice number.

    Positions would not do: a reopened slice gets a new position after the others.
    """
    upto = to_key(about["upto"])
    first = min([*pending, *dead], key=lambda work: work.number, default=None)
    if first is None:
        return Progress(about, upto, upto, about["rows"] or 0, 0, 0, True, 1.0)
    reached = first.lo if isinstance(first, Slice) else first.after
    share = _estimate_share(about, reached)
    if share is None and about["rows"]:
        share = min(0.99, first.before / about["rows"])
    return Progress(
        about=about,
        key=reached,
        upto=upto,
        rows=first.before,
        open=sum(isinstance(work, Slice) for work in pending),
        dead=len(dead),
        complete=False,
        share=share,
    )


def _estimate_share(about: dict[str, Any], reached: Key | None) -> float | None:
    """Return how far a key is from the first to the last, if keys of this type can be interpolated."""
    first, last = about["first_key"], about["upto"]
    if reached is None:
        return 0.0
    if first is None or last is None:
        return None
    parsers = _PARSERS[1:] if about["text_key"] else _PARSERS
    low, here, high = (_to_number(value[0], parsers) for value in (first, reached, last))
    if low is None or here is None or high is None or high <= low:
        return None
    return max(0.0, min(1.0, (here - low) / (high - low)))


def _to_number(value: Any, parsers: Sequence[Callable[[Any], float]]) -> float | None:
    for parse in parsers:
        try:
            number = float(parse(value))
        except (TypeError, ValueError, AttributeError, OverflowError):
            continue
        return number if math.isfinite(number) else None
    return None


_PARSERS: Sequence[Callable[[Any], float]] = (
    float,  # not for text keys, which sort "10" before "9"; dates and UUIDs sort alike as text
    lambda text: datetime.fromisoformat(text).timestamp(),
    lambda text: uuid.UUID(text).int,
)
