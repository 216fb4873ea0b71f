"""What a crawl shows while it runs: a live panel on a terminal, otherwise a line every few seconds.

The numbers about the frontier are its counters, which cost the same for any number of hosts. They count the hosts that
were ever seen, not those with queued URLs, so the panel can only give an upper bound for the latter. The counters do
tell whether any host is ready. If none is, every queued URL waits for politeness.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from swath import HandlerError, RunState, Status
from swath.cli import run_view
from swath.cli.formatting import escape, format_duration, format_size, pluralize
from swath.cli.item_export import ExportedItems
from swath.crawl.archive import index
from swath.crawl.archive.output import ITEMS_PREFIX
from swath.crawl.discard import CrawlContents
from swath.crawl.settings import CrawlSettings
from swath.crawl.workspace import Workspace, list_outputs

MAX_KINDS = 6  # of errors and refusals
MAX_SLOW_HOSTS = 3
SLOW_SECONDS = 1.0
HANDLER_ERRORS = "internal errors"  # of the page handler: bugs of swath
SERIOUS = {"stopping", "store away", "disk full", "paused", "leased"}
LONG_WAIT = 2  # delays; if nothing is ready for longer, hosts are blocked for another reason than the delay

_OUTPUT_NAMES = (
    ("archive", "swath-", ".warc.gz"),
    ("page list", "pages-", ".jsonl.gz"),
    ("item files", ITEMS_PREFIX, ".jsonl.gz"),
)
# What --lane paces. Lanes of addresses begin as lanes of hosts, and both are counted.
LANE_NOUNS = {"host": "host", "domain": "domain", "ip": "lane"}


def format_start(workspace: Workspace, before: Status) -> str:
    """Return one line about what the command is going to do."""
    settings = workspace.settings
    if not before.waiting:
        state = "has no URLs left to fetch" if before.dead else "is complete: there are no URLs to fetch"
        return f"the crawl in {settings.out} {state}"
    verb = f"resumes with {pluralize(before.waiting, 'URL')}" if workspace.resumed else "starts"
    parts = [f"the crawl in {settings.out} {verb}"]
    if workspace.added:
        parts.append(pluralize(workspace.added, "new seed"))
    each = settings.lane.replace("ip", "address")
    delay = format_duration(settings.min_interval)
    parts.append(f"one page every {delay} from each {each}" if settings.min_interval else "no delay between pages")
    return ", ".join(parts)


def format_contents(contents: CrawlContents) -> str:
    """Return one line about what --fresh discards."""
    files = f"{pluralize(contents.warc_files, 'WARC file')} ({format_size(contents.warc_bytes)})"
    frontier = "no frontier" if contents.store is None else f"frontier {contents.store}"
    counts = f"{pluralize(contents.pages, 'page')}, {pluralize(contents.queued, 'queued URL')}"
    return f"{contents.directory}/: {files}, {counts}; {frontier}"


def format_line(
    settings: CrawlSettings,
    stats: Mapping[str, Any],
    status: Status | None,
    states: Sequence[RunState] = (),
    errors: Sequence[HandlerError] = (),
) -> str:
    """Return one progress line for a log."""
    parts = [pluralize(stats.get("pages", 0), "page"), f"{stats.get('rate', 0.0):.1f}/s"]
    if status is not None:
        parts.append(f"{count_queued(status):,} queued, {pluralize(status.lanes, LANE_NOUNS[settings.lane])} seen")
    parts += [f"{stats.get('in_flight', 0):,} in flight", format_size(stats.get("bytes", 0))]
    if stats.get("items"):
        parts.append(f"items: {_format_counts(stats['items'])}")
    if stats.get("errors"):
        parts.append(f"errors: {_format_counts(stats['errors'])}")
    parts += run_view.format_rows(run_view.list_state_rows(states, settings.out))
    parts += run_view.format_rows(run_view.list_error_rows(errors, name=HANDLER_ERRORS))
    return ", ".join(parts)


def count_queued(status: Status) -> int:
    return status.ready + status.delayed + status.inbox


def max_lanes_with_urls(status: Status) -> int:
    """Return an upper bound for the number of lanes with URLs to fetch."""
    return min(status.lanes, count_queued(status) + status.claimed)


def frontier_to_json(status: Status | None, total_pages: int) -> dict[str, Any]:
    """Return what `--json` prints about the frontier."""
    if status is None:
        return {"queued": None, "hosts_seen": None, "pages_in_all": None, "dead": None}
    return {
        "queued": status.waiting - status.claimed,
        "hosts_seen": status.lanes,
        "pages_in_all": total_pages,
        "dead": status.dead,
    }


def build_panel(
    settings: CrawlSettings,
    stats: Mapping[str, Any],
    status: Status | None,
    states: Sequence[RunState] = (),
    errors: Sequence[HandlerError] = (),
) -> RenderableType:
    """Return the live display."""
    workers = stats.get("workers", 0)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="ellipsis")
    stands_still = any(state.name in SERIOUS for state in states)
    for name, value in _list_panel_rows(settings, stats, status, workers, stands_still=stands_still):
        grid.add_row(name, Text(escape(value)))
    for name, value in run_view.list_error_rows(errors, name=HANDLER_ERRORS):
        grid.add_row(name, Text(escape(value)), style="red")
    body: list[RenderableType] = [grid, *run_view.format_states(states, settings.out)]
    title = Text(f"crawling into {escape(settings.out)}", style="bold")
    return Panel(Group(*body), title=title, title_align="left", border_style="dim", expand=False)


def _list_panel_rows(
    settings: CrawlSettings, stats: Mapping[str, Any], status: Status | None, workers: int, *, stands_still: bool
) -> Iterator[tuple[str, str]]:
    seconds = max(stats.get("seconds", 0.0), 0.001)
    pages, rate = stats.get("pages", 0), stats.get("rate", 0.0)
    yield "pages", f"{pages:,}   {rate:,.1f}/s now, {pages / seconds:,.1f}/s overall"
    if status is not None:
        queued = count_queued(status)
        left = f", {format_duration(max(1, round(queued / rate)))} at this rate" if rate >= 0.1 else ""
        delayed = f" ({status.delayed:,} waiting for a retry)" if status.delayed else ""
        yield "queued", f"{queued:,}{delayed}{left}"
        active = f"at most {max_lanes_with_urls(status):,} with URLs left"
        next_ready = "" if stands_still else _format_next_ready(settings, status)
        yield f"{LANE_NOUNS[settings.lane]}s", f"{status.lanes:,} seen, {active}{next_ready}"
    of = f" of {workers:,}" if workers else ""
    yield "in flight", f"{stats.get('in_flight', 0):,}{of}"
    yield "received", f"{format_size(stats.get('bytes', 0))} in {format_duration(seconds)}"
    yield from _list_outcome_rows(stats)
    slow = [(host, took) for host, took in stats.get("slow", {}).items() if took >= SLOW_SECONDS]
    if slow:
        slowest = sorted(slow, key=lambda entry: -entry[1])[:MAX_SLOW_HOSTS]
        yield "slowest", "  ".join(f"{host} {took:.1f} s" for host, took in slowest)


def _format_next_ready(settings: CrawlSettings, status: Status) -> str:
    wait = _find_seconds_to_next_ready(settings, status)
    if wait is None:
        return ""
    return f", next one ready in {format_duration(max(0.1, round(wait, 1)))}" if wait else ", some ready now"


def _find_seconds_to_next_ready(settings: CrawlSettings, status: Status) -> float | None:
    """Return the seconds until a URL is ready; 0 if one is ready now, None if the counters cannot tell.

    While pages are in flight, the next moment that the store knows may be the end of their lease, long after their
    host is ready again.
    """
    if status.next_ready_at is None:
        return None
    wait = max(0.0, (status.next_ready_at - status.now).total_seconds())
    return None if status.claimed and wait > _compute_long_wait(settings) else wait


def _waits_long(settings: CrawlSettings, status: Status) -> bool:
    """Return whether nothing is ready for longer than the delay explains."""
    return (_find_seconds_to_next_ready(settings, status) or 0.0) > _compute_long_wait(settings)


def _compute_long_wait(settings: CrawlSettings) -> float:
    return max(1.0, LONG_WAIT * settings.min_interval)


def list_exported_rows(exported: Sequence[ExportedItems]) -> Iterator[tuple[str, str]]:
    """Yield the files that --items was written to."""
    for one in exported:
        yield f"{one.kind} file", f"{one.path}, {pluralize(one.items, 'item')}"


def _list_outcome_rows(stats: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if stats.get("items"):
        yield "items", _format_counts(stats["items"])
    if stats.get("statuses"):
        yield "responses", "  ".join(f"{name} {count:,}" for name, count in sorted(stats["statuses"].items()))
    if stats.get("errors"):
        yield "errors", _format_counts(stats["errors"])
    if stats.get("refused"):
        yield "not fetched", _format_counts(stats["refused"])
    if stats.get("duplicates"):
        yield "duplicates", f"{stats['duplicates']:,}"
    if stats.get("robots_fetched"):
        yield "robots.txt", f"{stats['robots_fetched']:,} fetched"


def add_pacing(
    states: Sequence[RunState], settings: CrawlSettings, stats: Mapping[str, Any], status: Status | None
) -> Sequence[RunState]:
    """Return the states with the arithmetic of politeness, unless something more serious keeps the crawl from working.

    A run knows that it waits for its lanes. A crawl also knows how many hosts there are and how long each one rests.
    """
    if any(state.name in SERIOUS for state in states):
        return states
    if (limit := explain_limit(settings, stats, status)) is None:
        return states
    is_long = status is not None and _waits_long(settings, status)
    seconds = next((state.seconds for state in states if state.name == "pacing"), 0.0)
    return [
        *(state for state in states if state.name != "pacing"),
        RunState("throttled" if is_long else "pacing", limit, seconds),
    ]


def explain_limit(settings: CrawlSettings, stats: Mapping[str, Any], status: Status | None) -> str | None:
    """Return a sentence with the arithmetic if politeness, not the machine, limits the speed."""
    workers = stats.get("workers", 0)
    if status is None or not status.ready or stats.get("in_flight", 0) >= workers / 2:
        return None
    noun, delay = LANE_NOUNS[settings.lane], format_duration(settings.min_interval)
    wait = _find_seconds_to_next_ready(settings, status) or 0.0
    if _waits_long(settings, status):
        return (
            f"every {noun} with URLs left asked for a pause or a longer delay, fails or is slow; the first is ready in "
            f"{format_duration(round(wait))}: see `swath lanes`"
        )
    if settings.min_interval <= 0:
        return None
    lanes = max_lanes_with_urls(status)
    max_rate = lanes / settings.min_interval
    if max_rate <= workers:
        each = "" if lanes == 1 else " each"
        reason = f"{pluralize(lanes, noun)}, one page every {delay}{each}, at most {max_rate:,.1f} pages/s"
    elif wait > 0:
        reason = f"every {noun} with URLs left waits {delay} between pages"
    else:
        return None
    return f"politeness is the limit: {reason}; more workers do not help"


def list_summary_rows(
    settings: CrawlSettings, stats: Mapping[str, Any], status: Status, *, total_pages: int, seconds: float
) -> Iterator[tuple[str, str]]:
    """Yield the rows of the summary at the end."""
    pages = stats.get("pages", 0)
    if pages:
        yield "pages", f"{pages:,} in {format_duration(seconds)}, {pages / max(seconds, 0.001):,.1f}/s"
        yield "received", format_size(stats.get("bytes", 0))
    yield from _list_outcome_rows(stats)
    if pages != total_pages:
        yield "total", pluralize(total_pages, "page") + " since the crawl started"
    yield "left", f"{status.waiting:,} queued, {status.dead:,} failed"
    yield from _list_file_rows(settings)


def _list_file_rows(settings: CrawlSettings) -> Iterator[tuple[str, str]]:
    found = list_outputs(settings.directory)
    for name, prefix, suffix in _OUTPUT_NAMES:
        sizes = [path.stat().st_size for path in found if path.name.startswith(prefix)]
        if sizes:
            where = f"{prefix}*{suffix} in {settings.out}"
            yield name, f"{pluralize(len(sizes), 'file')} {where}, {format_size(sum(sizes))}"
    if (settings.directory / index.FILE).exists():
        yield "index", str(settings.directory / index.FILE)


def _format_counts(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    text = "  ".join(f"{name} {count:,}" for name, count in ordered[:MAX_KINDS])
    return text + ("  …" if len(ordered) > MAX_KINDS else "")
