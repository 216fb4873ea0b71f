"""Progress of a backfill, read from its frontier."""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from swath import DeadItem, Frontier, PendingItem
from swath.backfill.ranges import BEGIN, LANE, Slice, Work, parse_work, to_key
from swath.tables.key_share import estimate_key_share
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
    share: float | None  # of the whole; None: unknown, or in the rows that --follow found later


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
    share = estimate_key_share(reached, first=about["first_key"], last=about["upto"], is_text=about["text_key"])
    if share is None and about["rows"]:
        share = min(0.99, first.before / about["rows"])
    if share == 1.0:  # beyond the key where it was to end: --follow found new rows, and their number is unknown
        share = None
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
