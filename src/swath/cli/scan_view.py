"""Texts of `swath scan`: the live panel, log lines, JSON and the report at the end."""

from collections import deque
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar

from swath import HandlerError, RunState
from swath.cli import run_view
from swath.cli.formatting import format_duration, format_size, pluralize
from swath.cli.scan_progress import describe_read, describe_records, describe_share, list_progress
from swath.cli.terminal import make_panel
from swath.scan.counts import Counts
from swath.scan.job import ScanJob
from swath.scan.progress import ScanProgress
from swath.scan.report import ScanReport
from swath.scan.settings import ScanSettings
from swath.scan.workspace import PreparedScan

WINDOW_SECONDS = 10.0  # of the current rate
MAX_CODES = 6  # in a line
BAR_WIDTH = 60


class Rate:
    """Records per second of this and other processes, over the last seconds."""

    def __init__(self) -> None:
        self.current = 0.0
        self._samples: deque[tuple[float, int]] = deque()

    def record(self, job: ScanJob, moment: float) -> None:
        """Take a sample. Records that are not settled yet count, so that the rate does not follow whole slices."""
        if job.progress is None:
            return
        counts = job.progress.counts
        records = counts.records + counts.rechecked + job.unsettled
        self._samples.append((moment, records))
        while len(self._samples) > 2 and moment - self._samples[0][0] > WINDOW_SECONDS:
            self._samples.popleft()
        since, before = self._samples[0]
        self.current = max(0.0, (records - before) / (moment - since)) if moment > since else 0.0


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


def list_run_rows(
    settings: ScanSettings, states: Sequence[RunState], errors: Sequence[HandlerError]
) -> list[tuple[str, str]]:
    """Return the errors of the check, and why the scan does nothing, if so."""
    return [*run_view.list_error_rows(errors), *run_view.list_state_rows(states, settings.store_url)]


def format_line(
    progress: ScanProgress | None, rate: float, run_rows: Sequence[tuple[str, str]] = (), *, unsettled: int = 0
) -> str:
    """Return the progress as one line, for logs. `run_rows` are those of `list_run_rows`."""
    if progress is None:
        return ", ".join(["no progress yet", *run_view.format_rows(run_rows)])
    parts = [describe_records(progress, noun="record"), f"{rate:,.0f}/s", describe_read(progress)]
    parts.append(describe_share(progress) if progress.share is not None else f"share {describe_share(progress)}")
    if (seconds := progress.seconds_left) is not None:
        parts.append(f"about {format_duration(seconds)} left")
    if unsettled:
        parts.append(f"{pluralize(unsettled, 'record')} not settled yet")
    parts.append(f"{pluralize(progress.status.waiting, 'slice')} waiting")
    parts.append(f"open: {_format_codes(progress.counts)}")
    return ", ".join(filter(None, [*parts, *run_view.format_rows(run_rows)]))


def make_progress_panel(
    job: ScanJob, rate: float, states: Sequence[RunState] = (), errors: Sequence[HandlerError] = ()
) -> RenderableType:
    """Return the live display."""
    progress = job.progress
    rows: list[tuple[str, str]] = []
    footer: list[RenderableType] = []
    if progress is not None:
        status = progress.status
        rows += list_progress(progress, rate=rate)
        if job.unsettled:
            rows.append(("not settled", f"{pluralize(job.unsettled, 'record')} in running slices"))
        rows.append(("slices", f"{status.done:,} done, {status.waiting:,} waiting, {status.dead:,} dead"))
        rows.append(("open", _format_codes(progress.counts)))
        if progress.share is not None:
            footer.append(ProgressBar(total=1.0, completed=progress.share, width=BAR_WIDTH))
    rows += run_view.list_error_rows(errors)
    footer += run_view.format_states(states, job.settings.store_url)
    return make_panel(f"scanning {job.settings.get_identity()['source']}", rows, footer=Group(*footer))


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
