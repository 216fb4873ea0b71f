"""Progress of a scan, read from its frontier: how much of the source was scanned, and how much there is.

The counters commit with every settlement, so the progress is the same on every machine and after any crash.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from swath import Frontier, Status
from swath.scan.counts import Counts, sum_counters
from swath.tables.key_share import estimate_key_share

SCAN = "scan"  # keys of facts
ENDED = "scan ended"
RECHECK = "recheck"
SAMPLES = "scan samples"
SAMPLE_SECONDS = 10.0  # between two samples of the share
STALE_SECONDS = 60.0  # an older sample says nothing about the scan now
UNFINISHED = 0.999  # the greatest share of a scan that is not complete


@dataclass(frozen=True, slots=True)
class ScanProgress:
    """How far a scan has come, over all processes."""

    status: Status
    counts: Counts
    share: float | None  # None: unknown
    size: Mapping[str, Any]  # of the source when the scan started, a SourceSize
    samples: Mapping[str, Any] | None = None  # the shares at two times

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the last samples. None if it is unknown, or if no process scans."""
        now, samples, share = self.status.now, self.samples, self.share
        if samples is None or share is None or not self.status.claimed:
            return None
        if _get_age(samples["latest"], now) > STALE_SECONDS:
            return None
        seconds, gained = _get_age(samples["earlier"], now), share - samples["earlier"]["share"]
        return (1.0 - share) * seconds / gained if gained > 0 and seconds >= 1.0 else None

    @property
    def folders_left(self) -> int:
        """Directories of a tree that are known and not listed yet."""
        if not self.size.get("listing"):
            return 0
        return max(0, self.counts.folders_found + 1 - self.counts.folders_listed)


async def read_progress(frontier: Frontier) -> ScanProgress | None:
    """Return the progress of a frontier's scan, or None if the frontier holds something else."""
    facts = await frontier.facts([SCAN, RECHECK, SAMPLES])
    if SCAN not in facts:
        return None
    counts = sum_counters(await frontier.counters())
    status = await frontier.status()
    size: Mapping[str, Any] = facts[SCAN].get("size", {})
    if not facts.get(RECHECK, {"ended": True})["ended"]:
        return ScanProgress(status, counts, None, size)
    starts = await _list_slice_starts(frontier) if size.get("last_key") and status.waiting else []
    share = estimate_share(size, counts, starts)
    if facts[SCAN]["planned"] and not status.waiting and not status.dead:
        share = 1.0
    elif share is not None:
        share = min(share, UNFINISHED)
    return ScanProgress(status, counts, share, size, facts.get(SAMPLES))


async def _list_slice_starts(frontier: Frontier) -> list[Sequence[Any] | None]:
    """Return the key before each slice that is not done. The plan keeps their number small."""
    return [item.payload["after"] async for item in frontier.pending() if "after" in item.payload]


def estimate_share(
    size: Mapping[str, Any], counts: Counts, slice_starts: Sequence[Sequence[Any] | None]
) -> float | None:
    """Return the share of the source that was scanned, or None if it is unknown."""
    if size.get("listing"):
        unlisted = counts.folders_found + 1 - counts.folders_listed
        return None if unlisted > 0 else _divide(counts.records + counts.skipped, counts.listed)
    for name in ("bytes", "compressed", "records"):
        if name in size:
            return _divide(getattr(counts, name), size[name])
    first, last, is_text = size.get("first_key"), size.get("last_key"), size.get("text_key", False)
    shares = [estimate_key_share(key, first=first, last=last, is_text=is_text) for key in (*slice_starts, last)]
    if slice_starts and None not in shares:
        return min(share for share in shares if share is not None)
    return _divide(counts.records, size.get("about_records"))


def _divide(done: int, total: int | None) -> float | None:
    return min(1.0, done / total) if total else None


# The samples are a fact, so that every process and `swath status` can tell how long the rest takes.


def sample_share(progress: ScanProgress) -> dict[str, Any] | None:
    """Return the samples to record. None if it is too early for another one, or if the share is unknown."""
    now, before = progress.status.now, progress.samples
    if progress.share is None or progress.share >= 1.0:
        return None
    latest = {"at": now.isoformat(), "share": progress.share}
    age = None if before is None else _get_age(before["latest"], now)
    if before is None or age is None or age > STALE_SECONDS:
        return {"earlier": latest, "latest": latest}
    return None if age < SAMPLE_SECONDS else {"earlier": before["latest"], "latest": latest}


def _get_age(sample: Mapping[str, Any], now: datetime) -> float:
    return (now - datetime.fromisoformat(sample["at"])).total_seconds()
