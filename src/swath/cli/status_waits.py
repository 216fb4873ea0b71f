"""What the items that are not finished wait for, as far as that is cheap to know.

The counters of a frontier do not tell lanes apart. If there are few lanes or items, reading them all tells why an item
waits; otherwise it stays unknown, because `swath status` takes the same time however large the frontier is.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from swath import Frontier, Status
from swath.cli.lanes_view import get_state

MAX_LANES = 1_000
MAX_ITEMS = 1_000


@dataclass(frozen=True, slots=True)
class Waits:
    """Why items wait. None means unknown, because the frontier is too large to find out."""

    ready: Mapping[str, int] | None  # ready items by the state of their lane: ready, paused, blocked, resting, busy
    paused_lanes: int | None
    delayed: Mapping[str, int] | None  # delayed items by cause: retry, revisit, start (added with a later start)


UNKNOWN = Waits(None, None, None)


async def read_waits(frontier: Frontier, status: Status) -> Waits:
    """Find out why items wait, in bounded time."""
    ready: Counter[str] | None = None
    paused = None
    if status.lanes <= MAX_LANES:
        lanes = [lane async for lane in frontier.lanes()]
        ready = Counter()
        for lane in lanes:
            ready[get_state(lane, status.now)] += lane.waiting
        paused = sum(lane.paused for lane in lanes)
    return Waits(None if ready is None else +ready, paused, await _read_delayed(frontier, status))


async def _read_delayed(frontier: Frontier, status: Status) -> Mapping[str, int] | None:
    if not status.delayed:
        return {}
    if not status.lag and not status.inbox:  # all items were settled before
        return {"revisit": status.delayed}
    if status.waiting > MAX_ITEMS:
        return None
    pending = [item async for item in frontier.pending() if item.state == "delayed"]
    causes = Counter("retry" if item.attempts else "start" for item in pending)
    causes["revisit"] = max(0, status.delayed - len(pending))
    return +causes
