"""How a crawl looks while it runs: a live panel on a terminal, a line now and then elsewhere.

What is shown of the frontier comes from its counters, which cost the same however many hosts there are. They say how
many hosts were ever seen, not how many of them have work: that is at most the number of URLs that wait. But they say
whether any host is ready; if none is, everything that waits does so for politeness.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from swath.cli.formatting import escape, format_duration, format_size, pluralize
from swath.core.status import Status
from swath.crawl import workspace
from swath.crawl.archive import index
from swath.crawl.settings import CrawlSettings

LINE_SECONDS = 10.0
MOST_KINDS = 6
MOST_SLOW = 3
SLOW_SECONDS = 1.0

LONG_WAIT = 2  # turns; who is not ready for longer than that is left alone for another reason than the delay

# What is paced together, by --lane. Lanes of addresses begin as lanes of hosts, and both are counted.
PACED = {"host": "host", "domain": "domain", "ip": "lane"}

ENDINGS = {
    "done": "everything is crawled",
    "SIGINT": "stopped",
    "SIGTERM": "stopped",
    "max-pages": "stopped by --max-pages",
    "max-duration": "stopped by --max-duration",
    "failed": "stopped: every process failed",
}


def beginning(settings: CrawlSettings, prepared: workspace.Prepared, before: Status) -> str:
    """What is about to happen, in a line."""
    where = f"the crawl in {settings.out}"
    if not before.waiting:
        return f"{where} is complete: nothing is left to fetch"
    left = pluralize(before.waiting, "URL")
    parts = [f"{where} goes on: {left} left" if prepared.resumed else f"{where} begins"]
    if prepared.added:
        parts.append(pluralize(prepared.added, "new seed"))
    each = settings.lane.replace("ip", "address")
    every = format_duration(settings.min_interval)
    parts.append(f"a page every {every} from each {each}" if settings.min_interval else "no delay between pages")
    return ", ".join(parts)


def ending(stopped_by: str) -> str:
    return ENDINGS.get(stopped_by, f"stopped by {stopped_by}")


def line(settings: CrawlSettings, tally: Mapping[str, Any], status: Status | None) -> str:
    """One line, for logs."""
    parts = [pluralize(tally.get("pages", 0), "page"), f"{tally.get('rate', 0.0):.1f}/s"]
    if status is not None:
        parts.append(f"{queued(status):,} queued, {pluralize(status.lanes, PACED[settings.lane])} seen")
    parts += [f"{tally.get('in_flight', 0):,} in flight", format_size(tally.get("bytes", 0))]
    if tally.get("errors"):
        parts.append(f"errors: {_kinds(tally['errors'])}")
    return ", ".join(parts)


def queued(status: Status) -> int:
    return status.ready + status.delayed + status.inbox


def hosts_with_work(status: Status) -> int:
    """How many hosts have work, at most."""
    return min(status.lanes, queued(status) + status.claimed)


def frontier(status: Status | None) -> dict[str, Any]:
    """What `--json` says of the frontier."""
    if status is None:
        return {"queued": None, "hosts_seen": None, "pages_in_all": None, "dead": None}
    return {
        "queued": status.waiting - status.claimed,
        "hosts_seen": status.lanes,
        "pages_in_all": status.visits,
        "dead": status.dead,
    }


def panel(
    settings: CrawlSettings,
    tally: Mapping[str, Any],
    status: Status | None,
    *,
    workers: int,
) -> RenderableType:
    """The live display."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in _rows(settings, tally, status, workers):
        grid.add_row(name, Text(escape(value)))
    body: list[RenderableType] = [grid]
    if (hint := politeness_hint(settings, tally, status, workers=workers)) is not None:
        body.append(Text(f"\n{escape(hint)}", style="yellow"))
    title = Text(f"crawling into {escape(settings.out)}", style="bold")
    return Panel(Group(*body), title=title, title_align="left", border_style="dim", expand=False)


def _rows(
    settings: CrawlSettings, tally: Mapping[str, Any], status: Status | None, workers: int
) -> Iterator[tuple[str, str]]:
    seconds = max(tally.get("seconds", 0.0), 0.001)
    pages, rate = tally.get("pages", 0), tally.get("rate", 0.0)
    yield "pages", f"{pages:,}   {rate:,.1f}/s now, {pages / seconds:,.1f}/s overall"
    if status is not None:
        lasts = f", {format_duration(max(1, round(queued(status) / rate)))} of work at this pace" if rate >= 0.1 else ""
        later = f" ({status.delayed:,} to be tried again later)" if status.delayed else ""
        yield "queued", f"{queued(status):,}{later}{lasts}"
        of_these = f"at most {hosts_with_work(status):,} with work"
        yield f"{PACED[settings.lane]}s", f"{status.lanes:,} seen, {of_these}{_next_turn(settings, status)}"
    yield "in flight", f"{tally.get('in_flight', 0):,} of {workers:,}"
    yield "received", f"{format_size(tally.get('bytes', 0))} in {format_duration(seconds)}"
    yield from _outcomes(tally)
    slow = [(host, took) for host, took in tally.get("slow", {}).items() if took >= SLOW_SECONDS]
    if slow:
        slowest = sorted(slow, key=lambda entry: -entry[1])[:MOST_SLOW]
        yield "slowest", "  ".join(f"{host} {took:.1f} s" for host, took in slowest)


def _next_turn(settings: CrawlSettings, status: Status) -> str:
    wait = _wait(settings, status)
    if wait is None:
        return ""
    return f", the next ready in {format_duration(max(0.1, round(wait, 1)))}" if wait else ", some ready now"


def _wait(settings: CrawlSettings, status: Status) -> float | None:
    """Seconds until something is ready; 0 when something is, None when that cannot be told. While a page is in flight
    its lease counts as well, which ends long after its host is ready again."""
    if status.next_ready_at is None:
        return None
    wait = max(0.0, (status.next_ready_at - status.now).total_seconds())
    return None if status.claimed and wait > _long(settings) else wait


def _long(settings: CrawlSettings) -> float:
    return max(1.0, LONG_WAIT * settings.min_interval)


def _outcomes(tally: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if tally.get("statuses"):
        yield "answers", "  ".join(f"{name} {count:,}" for name, count in sorted(tally["statuses"].items()))
    if tally.get("errors"):
        yield "errors", _kinds(tally["errors"])
    if tally.get("refused"):
        yield "not fetched", _kinds(tally["refused"])
    if tally.get("duplicates"):
        yield "duplicates", f"{tally['duplicates']:,}"
    if tally.get("robots_fetched"):
        yield "robots.txt", f"{tally['robots_fetched']:,} fetched"


def politeness_hint(
    settings: CrawlSettings, tally: Mapping[str, Any], status: Status | None, *, workers: int
) -> str | None:
    """When throughput is limited by politeness rather than by the machine, the sizing law says so."""
    if status is None or settings.min_interval <= 0 or not status.ready or tally.get("in_flight", 0) >= workers / 2:
        return None
    noun, every = PACED[settings.lane], format_duration(settings.min_interval)
    wait = _wait(settings, status) or 0.0
    if wait > _long(settings):
        return (
            f"every {noun} with work is left alone for a while: it asked for that, fails or is slow (see swath lanes)"
        )
    hosts = hosts_with_work(status)
    most = hosts / settings.min_interval
    enough = pluralize(round(workers * settings.min_interval), noun)
    wanted = f"{pluralize(workers, 'worker')} would want {enough} with work"
    if most <= workers:
        law = f"at most {pluralize(hosts, noun)} ÷ {every} = {most:,.1f} pages/s"
    elif wait > 0:
        law = f"every {noun} with work waits for its turn, {every} after the one before"
    else:
        return None
    return f"politeness sets the pace: {law}; {wanted}"


def summary(
    settings: CrawlSettings, tally: Mapping[str, Any], status: Status, *, seconds: float
) -> Iterator[tuple[str, str]]:
    """What a crawl came to."""
    pages = tally.get("pages", 0)
    if pages:
        yield "pages", f"{pages:,} in {format_duration(seconds)}, {pages / max(seconds, 0.001):,.1f}/s"
        yield "received", format_size(tally.get("bytes", 0))
    yield from _outcomes(tally)
    if pages != status.visits:
        yield "in all", pluralize(status.visits, "page") + " since the crawl began"
    yield "left", f"{status.waiting:,} queued, {status.dead:,} given up"
    yield from _files(settings)


def _files(settings: CrawlSettings) -> Iterator[tuple[str, str]]:
    """What lies in the directory now."""
    found = workspace.outputs(settings.directory)
    for name, suffix in (("archive", ".warc.gz"), ("list of pages", ".jsonl.gz")):
        sizes = [path.stat().st_size for path in found if path.name.endswith(suffix)]
        if sizes:
            yield name, f"{pluralize(len(sizes), 'file')} *{suffix} in {settings.out}, {format_size(sum(sizes))}"
    if (settings.directory / index.FILE).exists():
        yield "index", str(settings.directory / index.FILE)


def _kinds(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    text = "  ".join(f"{name} {count:,}" for name, count in ordered[:MOST_KINDS])
    return text + ("  …" if len(ordered) > MOST_KINDS else "")
