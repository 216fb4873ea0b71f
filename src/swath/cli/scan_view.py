"""Texts of `swath scan`: the live panel, log lines, JSON and the report at the end."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType

from swath import HandlerError, RunState, Status
from swath.cli import run_view
from swath.cli.formatting import format_duration, format_size, pluralize
from swath.cli.terminal import make_panel
from swath.scan.counts import Counts
from swath.scan.report import ScanReport
from swath.scan.settings import ScanSettings
from swath.scan.workspace import PreparedScan

WINDOW_SECONDS = 10.0  # of the current rate
MAX_CODES = 6  # in a line


class Rate:
    """Records per second, over the last seconds."""

    def __init__(self) -> None:
        self.current = 0.0
        self._samples: deque[tuple[float, int]] = deque()

    def record(self, records: int, moment: float) -> None:
        self._samples.append((moment, records))
        while len(self._samples) > 2 and moment - self._samples[0][0] > WINDOW_SECONDS:
            self._samples.popleft()
        since, before = self._samples[0]
        self.current = (records - before) / (moment - since) if moment > since else 0.0


def describe_start(prepared: PreparedScan, before: ScanReport) -> str:
    """Return what is about to happen, in one line."""
    settings = before.settings
    where = "" if settings.store else f" (progress is kept in {settings.store_path})"
    what = f"the scan of {settings.get_identity()['source']}"
    if before.complete:
        anew = "another --out and --store" if settings.store else "--fresh"
        return (
            f"{what} is complete and does not run again. Use {anew} to start over, or --recheck to check the records "
            "with open findings again"
        )
    if prepared.round:
        left = pluralize(before.status.waiting, "slice")
        return f"recheck {prepared.round} of {what}: {left} of records with open findings"
    if prepared.resumed:
        return f"{what} resumes: {pluralize(before.counts.records, 'record')} so far{where}"
    return f"{what} starts{where}"


def describe_end(report: ScanReport) -> str:
    if report.clean:
        return "everything was scanned, and no finding is open"
    return "everything was scanned" if report.complete else "stopped"


def format_line(counts: Counts, status: Status | None, rate: float, run_rows: Sequence[tuple[str, str]] = ()) -> str:
    """Return the progress as one line, for logs. `run_rows` are those of `list_run_rows`."""
    parts = [pluralize(counts.records, "record"), f"{rate:,.0f}/s", format_size(counts.bytes)]
    if status is not None:
        parts.append(f"{pluralize(status.waiting, 'slice')} waiting")
    parts.append(f"open: {_format_codes(counts)}")
    parts += run_view.format_rows(run_rows)
    return ", ".join(parts)


def progress_to_json(counts: Counts, status: Status | None, rate: float) -> dict[str, Any]:
    """Return the fields of a progress event of --json."""
    return {
        "records": counts.records,
        "bytes": counts.bytes,
        "rate": rate,
        "open": dict(counts.open),
        "waiting": None if status is None else status.waiting,
        "dead": None if status is None else status.dead,
    }


def list_run_rows(
    settings: ScanSettings, states: Sequence[RunState], errors: Sequence[HandlerError]
) -> list[tuple[str, str]]:
    """Return the errors of the check, and why the scan does nothing, if so."""
    return [*run_view.list_error_rows(errors), *run_view.list_state_rows(states, settings.store_url)]


def make_progress_panel(
    settings: ScanSettings,
    counts: Counts,
    status: Status | None,
    rate: float,
    run_rows: Sequence[tuple[str, str]] = (),
) -> RenderableType:
    """Return the live display. `run_rows` are those of `list_run_rows`."""
    rows = [("records", f"{counts.records:,}   {rate:,.0f}/s now"), ("read", format_size(counts.bytes))]
    if status is not None:
        rows.append(("slices", f"{status.done:,} done, {status.waiting:,} waiting, {status.dead:,} dead"))
    rows.append(("open", _format_codes(counts)))
    rows += run_rows
    return make_panel(f"scanning {settings.get_identity()['source']}", rows)


def list_facts(report: ScanReport, seconds: float) -> Iterator[tuple[str, str]]:
    """Yield the report: what was scanned, when, and which findings are open."""
    saved, counts, status = report.settings.get_identity(), report.counts, report.status
    yield "source", saved["source"]
    if saved["against"]:
        yield "against", f"{saved['against']} ({', '.join(saved['columns']) or 'everything'})"
    else:
        yield "check", str(saved["check"])
    size = f", {format_size(counts.bytes)}" if counts.bytes else ""
    skipped = f", {pluralize(counts.skipped, 'other')} skipped" if counts.skipped else ""
    yield "records", f"{counts.records:,}{size}{skipped}"
    yield "from", report.began
    yield "to", report.ended or "not complete"
    checkpoint = status.checkpoints[0]
    at_end = "at the end" if not checkpoint.lag else "not at the end"
    yield "checkpoint", f"{at_end}: {checkpoint.position:,} of {pluralize(checkpoint.end, 'slice')}"
    yield "dead", pluralize(status.dead, "slice")
    if report.round:
        yield "rechecks", f"{report.round:,}, {pluralize(counts.rechecked, 'record')} checked again"
    if counts.fixed:
        yield "fixed", ", ".join(f"{code} {number:,}" for code, number in counts.fixed.most_common())
    yield "open", f"{report.open.total():,}" if report.open else "none"
    for code, number in report.open.most_common():
        some = "; ".join(f"{key}: {message}" if message else key for key, message in report.examples.get(code, ()))
        yield f"  {code}", f"{number:,}" + (f"   {some}" if some else "")
    others = f", and {report.outputs - 1:,} more by other processes" if report.outputs > 1 else ""
    yield "findings", f"{report.settings.out}{others}"
    yield "time", format_duration(seconds)


def _format_codes(counts: Counts) -> str:
    ordered = counts.open.most_common(MAX_CODES)
    return "  ".join(f"{code} {number:,}" for code, number in ordered) or "none"
