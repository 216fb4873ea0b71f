"""How a backfill looks while it runs, and what is said of it in the end."""

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.progress_bar import ProgressBar

from swath.backfill.job import Begun, Job
from swath.backfill.progress import Progress
from swath.backfill.settings import BackfillSettings
from swath.cli.formatting import format_duration, format_json, pluralize
from swath.cli.terminal import make_panel
from swath.tables.table import Key

LINE_SECONDS = 10.0
BAR_WIDTH = 60


def beginning(begun: Begun, settings: BackfillSettings) -> str:
    """What is about to happen, in a few lines."""
    before = begun.before
    table = begun.table.description
    if before.over and not settings.follow:
        return f"the backfill of {table.name} is complete: give --name to begin another"
    how = (
        "exactly once: each slice and its record commit together"
        if begun.exactly_once
        else "at least once: after a crash some rows may be changed again, because the frontier is in another database"
    )
    onward = f"goes on after {key(before.key)}" if begun.resumed else "begins"
    upto = "as rows come" if settings.follow else f"up to {key(before.upto)}"
    return f"backfill of {table.name} by {', '.join(table.key_names)} {onward}, {upto}\nevery row {how}"


def key(found: Key | None) -> str:
    """A key as it can be given to --from and --to."""
    if found is None:
        return "the beginning"
    return str(found[0]) if len(found) == 1 else format_json(list(found))


def left(job: Job, now: Progress) -> float | None:
    """Seconds until it is over, if it goes on as it did."""
    if not job.tally.rate or not now.share or now.share >= 1:
        return None
    rows = now.rows * (1 - now.share) / now.share
    return rows / job.tally.rate


def rows(job: Job) -> Iterator[tuple[str, str]]:
    tally, now = job.tally, job.progress
    yield "rows", f"{tally.rows:,} covered, {tally.changed:,} changed   {tally.rate:,.0f}/s"
    size = pluralize(job.sizer.size, "row")
    yield "slices", f"{tally.slices:,} of about {size} now, the longest {tally.longest * 1000:,.0f} ms"
    if tally.overruns:
        yield "made smaller", ", ".join(f"{why} {count:,}" for why, count in tally.overruns.most_common())
    if now is not None:
        share = "" if now.share is None else f"   {now.share:.1%}"
        yield "covered", f"up to {key(now.key)}{share}"
        if (seconds := left(job, now)) is not None:
            yield "left", f"about {format_duration(seconds)}"
        if now.dead:
            yield "given up", pluralize(now.dead, "slice")
    if job.governor is not None and (complaint := job.governor.complaint) is not None:
        yield "paused" if complaint.pause else "slower", complaint.why


def panel(job: Job) -> RenderableType:
    """The live display."""
    now = job.progress
    bar = None
    if now is not None and now.share is not None:
        bar = ProgressBar(total=1.0, completed=now.share, width=BAR_WIDTH)
    return make_panel(f"backfill of {job.settings.table}", rows(job), footer=bar)


def line(job: Job) -> str:
    """One line, for logs."""
    return ", ".join(f"{name}: {value}" for name, value in rows(job))


def as_dict(job: Job) -> dict[str, Any]:
    """What `--json` says."""
    now = job.progress
    complaint = None if job.governor is None else job.governor.complaint
    return {
        **job.tally.as_dict(),
        "size": job.sizer.size,
        "covered": None if now is None else now.key,
        "share": None if now is None else now.share,
        "seconds_left": None if now is None else left(job, now),
        "given_up": None if now is None else now.dead,
        "held_back": None if complaint is None else complaint.why,
    }


def ending(stopped_by: str, now: Progress) -> str:
    if now.over:
        return "every row is covered"
    return "stopped" if stopped_by != "done" else "covered, but for what was given up"
