"""Texts of `swath backfill`: the live panel, log lines, JSON and the summary."""

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar

from swath.backfill.job import BackfillJob, StartInfo
from swath.backfill.progress import Progress
from swath.cli import run_view
from swath.cli.formatting import format_duration, format_json, pluralize
from swath.cli.terminal import make_panel
from swath.tables.table import Key

BAR_WIDTH = 60


def describe_start(job: BackfillJob, start: StartInfo) -> str:
    """Return what is about to happen, in two lines."""
    progress, follow = start.progress, job.settings.follow
    table = job.table.description
    if progress.complete and not follow:
        return f"the backfill of {table.name} is complete; use --name to start another one"
    promise = (
        "exactly once: each slice commits together with its progress"
        if job.exactly_once
        else "at least once: the frontier is in another database, so a crash may repeat some rows"
    )
    key = ", ".join(table.key_names)
    begin = "starts"
    if start.resumed:
        begin = "resumes" if progress.key is None else f"resumes after {key} {format_key(progress.key)}"
    end = f"it ends at {key} {format_key(progress.upto)}"
    if follow:
        end = "then it follows new rows"
    elif progress.upto is None:
        end = "there are no rows to change"
    return f"the backfill of {table.name} by {key} {begin}; {end}\neach row is changed {promise}"


def format_key(key: Key | None) -> str:
    """Return a key in the form that --from and --to take."""
    if key is None:
        return "the start"
    return str(key[0]) if len(key) == 1 else format_json(list(key))


def estimate_seconds_left(job: BackfillJob, progress: Progress) -> float | None:
    """Return an estimate, or None if it is unknown, also while only a part of the first slice is covered."""
    if not job.stats.rate or not progress.rows or not progress.share or progress.share >= 1:
        return None
    rows = progress.rows * (1 - progress.share) / progress.share
    return rows / job.stats.rate


def get_rate(job: BackfillJob, seconds: float | None) -> float:
    """Return rows per second: of a run that took `seconds`, or over the last seconds of a run that continues."""
    return job.stats.rate if seconds is None else job.stats.rows / max(seconds, 0.001)


def list_facts(job: BackfillJob, *, seconds: float | None = None) -> Iterator[tuple[str, str]]:
    """Yield names and values for the panel, or for the summary of a run that took `seconds`. The states are apart."""
    stats, progress = job.stats, job.progress
    rate = f"   {get_rate(job, seconds):,.0f}/s" if stats.rows or seconds is None else ""
    yield "rows", f"{stats.rows:,} processed, {stats.changed:,} changed by this run{rate}"
    if stats.slices or seconds is None:
        size = f", now of about {pluralize(job.sizer.size, 'row')}" if seconds is None else ""
        yield "slices", f"{stats.slices:,}{size}; the longest took {format_duration(stats.longest)}"
    if stats.overruns:
        yield "shortened", ", ".join(f"{reason} {count:,}" for reason, count in stats.overruns.most_common())
    if progress is not None:
        share = "" if progress.share is None else f"   {progress.share:.1%}"
        yield "covered", f"up to {format_key(progress.key)}{share}"
        if (seconds := estimate_seconds_left(job, progress)) is not None:
            yield "time left", f"about {format_duration(seconds)}"
        if progress.dead:
            yield "dead", pluralize(progress.dead, "slice")
    yield from run_view.list_error_rows(job.monitor.errors)


def make_progress_panel(job: BackfillJob) -> RenderableType:
    """Return the live display."""
    progress = job.progress
    footer: list[RenderableType] = []
    if progress is not None and progress.share is not None:
        footer.append(ProgressBar(total=1.0, completed=progress.share, width=BAR_WIDTH))
    footer += run_view.format_states(job.states, job.settings.store_url)
    return make_panel(f"backfill of {job.settings.table}", list_facts(job), footer=Group(*footer))


def format_line(job: BackfillJob) -> str:
    """Return the progress as one line, for logs."""
    states = run_view.list_state_rows(job.states, job.settings.store_url)
    return ", ".join(run_view.format_rows([*list_facts(job), *states]))


def to_json(job: BackfillJob, *, seconds: float | None = None) -> dict[str, Any]:
    """Return the fields of --json, or of the summary of a run that took `seconds`."""
    progress = job.progress
    overload = None if job.throttle is None else job.throttle.overload
    return {
        **job.stats.as_dict(),
        "rate": get_rate(job, seconds),
        "size": job.sizer.size,
        "covered": None if progress is None else progress.key,
        "share": None if progress is None else progress.share,
        "seconds_left": None if progress is None else estimate_seconds_left(job, progress),
        "dead": None if progress is None else progress.dead,
        "throttled": None if overload is None else overload.reason,
        **run_view.to_json(job.states, job.monitor.errors),
    }


def describe_end(stopped_by: str, progress: Progress) -> str:
    if progress.complete:
        return "every row is covered"
    return "stopped" if stopped_by != "done" else "every row is covered, except for dead slices"
