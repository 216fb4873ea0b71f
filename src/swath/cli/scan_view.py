"""How a scan looks while it runs, and the proof that it ends with."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType

from swath import Status
from swath.cli.formatting import format_duration, format_size, pluralize
from swath.cli.terminal import make_panel
from swath.scan.counts import Counts
from swath.scan.report import Proof
from swath.scan.settings import ScanSettings
from swath.scan.workspace import Prepared

LINE_SECONDS = 10.0
WINDOW = 10.0  # seconds over which "now" is measured
MOST_CODES = 6  # in a line


class Rate:
    """Records per second, lately."""

    def __init__(self) -> None:
        self.now = 0.0
        self._seen: deque[tuple[float, int]] = deque()

    def seen(self, records: int, moment: float) -> None:
        self._seen.append((moment, records))
        while len(self._seen) > 2 and moment - self._seen[0][0] > WINDOW:
            self._seen.popleft()
        since, before = self._seen[0]
        self.now = (records - before) / (moment - since) if moment > since else 0.0


def beginning(prepared: Prepared, before: Proof) -> str:
    """What is about to happen, in a line."""
    settings = before.settings
    where = "" if settings.store else f" (its progress is kept in {settings.store_path})"
    what = f"the scan of {settings.saved()['source']}"
    if before.complete:
        anew = "another --out and --store" if settings.store else "--fresh"
        return (
            f"{what} is complete and was not repeated: give {anew} to begin anew, or --recheck to look again at what "
            "is open"
        )
    if prepared.round:
        left = pluralize(before.status.waiting, "slice")
        return f"recheck {prepared.round} of {what}: {left} of keys with open findings"
    if prepared.resumed:
        return f"{what} goes on: {pluralize(before.counts.records, 'record')} looked at so far{where}"
    return f"{what} begins{where}"


def ending(found: Proof) -> str:
    if found.clean:
        return "everything was looked at, and nothing is open"
    return "everything was looked at" if found.complete else "stopped"


def line(counts: Counts, status: Status | None, rate: float) -> str:
    """One line, for logs."""
    parts = [pluralize(counts.records, "record"), f"{rate:,.0f}/s", format_size(counts.bytes)]
    if status is not None:
        parts.append(f"{pluralize(status.waiting, 'slice')} waiting")
    parts.append(f"open: {_codes(counts)}")
    return ", ".join(parts)


def progress(counts: Counts, status: Status | None, rate: float) -> dict[str, Any]:
    """What `--json` says meanwhile."""
    return {
        "records": counts.records,
        "bytes": counts.bytes,
        "rate": rate,
        "open": dict(counts.open),
        "waiting": None if status is None else status.waiting,
        "dead": None if status is None else status.dead,
    }


def panel(settings: ScanSettings, counts: Counts, status: Status | None, rate: float) -> RenderableType:
    """The live display."""
    rows = [("records", f"{counts.records:,}   {rate:,.0f}/s now"), ("read", format_size(counts.bytes))]
    if status is not None:
        rows.append(("slices", f"{status.done:,} done, {status.waiting:,} waiting, {status.dead:,} given up"))
    rows.append(("open", _codes(counts)))
    return make_panel(f"scanning {settings.saved()['source']}", rows)


def summary(found: Proof, seconds: float) -> Iterator[tuple[str, str]]:
    """The proof: what was looked at, when, and what is open."""
    saved, counts, status = found.settings.saved(), found.counts, found.status
    yield "source", saved["source"]
    if saved["against"]:
        yield "against", f"{saved['against']} ({', '.join(saved['columns']) or 'everything'} compared)"
    else:
        yield "check", str(saved["check"])
    size = f", {format_size(counts.bytes)}" if counts.bytes else ""
    skipped = f", {pluralize(counts.skipped, 'other')} skipped" if counts.skipped else ""
    yield "records", f"{counts.records:,} looked at{size}{skipped}"
    yield "from", found.began
    yield "to", found.ended or "not over"
    checkpoint = status.checkpoints[0]
    at_end = "at the end" if not checkpoint.lag else "not at the end"
    yield "checkpoint", f"{at_end}: {checkpoint.position:,} of {pluralize(checkpoint.end, 'slice')}"
    yield "given up", pluralize(status.dead, "slice")
    if found.round:
        yield "rechecks", f"{found.round:,}, {pluralize(counts.rechecked, 'record')} looked at again"
    if counts.fixed:
        yield "fixed", ", ".join(f"{code} {number:,}" for code, number in counts.fixed.most_common())
    yield "open", f"{found.open.total():,}" if found.open else "none"
    for code, number in found.open.most_common():
        some = "; ".join(f"{key}: {message}" if message else key for key, message in found.examples.get(code, ()))
        yield f"  {code}", f"{number:,}" + (f"   {some}" if some else "")
    others = f", and {found.outputs - 1:,} more of other processes" if found.outputs > 1 else ""
    yield "findings", f"{found.settings.out}{others}"
    yield "time", format_duration(seconds)


def _codes(counts: Counts) -> str:
    ordered = counts.open.most_common(MOST_CODES)
    return "  ".join(f"{code} {number:,}" for code, number in ordered) or "none"
