"""What a crawl says at its end: what became of it, and the commands for the next steps."""

import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from swath import Explanation, Frontier, Status, mask_password
from swath.cli.explain import explain_key
from swath.cli.formatting import pluralize
from swath.cli.terminal import Pairs, is_terminal, print_facts, print_line
from swath.crawl import seeds
from swath.crawl.handlers.start import START_KEY
from swath.crawl.job import LIFESPAN
from swath.crawl.settings import SETTINGS, CrawlSettings, format_flag
from swath.crawl.urls import normalise

NOTHING = "nothing was fetched"
FAILED = "failed"  # what stopped a crawl whose processes all failed
ENDS = {
    "SIGINT": "stopped",
    "SIGTERM": "stopped",
    FAILED: "every process failed",
    LIFESPAN: "stopped because the lifespan of the crawler failed",
}
NOT_REPEATED = frozenset(
    {"out", "store", "retry_failed", "max_pages", "max_duration", "same_code"}
)  # in the commands to copy


async def describe_end(
    frontier: Frontier, settings: CrawlSettings, status: Status, *, stopped_by: str, total_pages: int
) -> str:
    """Return what became of the crawl, such as `complete, 3 failed`."""
    if not status.waiting and not total_pages:
        seed = seeds.read_first_seed(settings.directory)
        cause = f": {await _find_cause(frontier, seed)}" if seed else ""  # a machine that joins may have no seeds
        start = await explain_key(frontier, START_KEY, lane=START_KEY)
        if start.state == "dead":
            cause = f": {_get_cause(start)}"
        return f"{NOTHING}{cause}" + (f", {status.dead:,} failed" if status.dead > bool(seed) else "")
    parts = [
        ENDS.get(stopped_by, f"stopped by --{stopped_by}") if status.waiting or stopped_by == FAILED else "complete"
    ]
    if status.waiting:
        parts.append(f"{pluralize(status.waiting, 'URL')} left")
    if status.dead:
        parts.append(f"{status.dead:,} failed")
    return ", ".join(parts)


async def _find_cause(frontier: Frontier, url: str) -> str:
    """Return why a seed was not fetched, with its host unless the cause names it."""
    cause, host = _get_cause(await explain_key(frontier, url)), normalise.host(url)
    return cause if host in cause else f"{cause} ({host})"


def _get_cause(found: Explanation) -> str:
    match found.data:
        case {"reason": str(reason)}:
            return reason
        case {"result": {"excluded": str(excluded), "rule": str(rule)}}:
            return f"{excluded}: {rule}"
        case _:
            return found.sentence


def list_next_steps(
    settings: CrawlSettings, status: Status, result: str, *, total_pages: int, can_repair: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield what the user may want to do next, and the command for it.

    With `can_repair`, handlers failed, and `swath extract --failed` can call them again.
    """
    if total_pages:
        yield "export the pages", f"swath export pages.csv --out {shlex.quote(settings.out)}"
    if total_pages and (seed := seeds.read_first_seed(settings.directory)):
        yield "show a page", f"swath show {shlex.quote(seed)} --out {shlex.quote(settings.out)}"
    if status.waiting:
        yield "continue", _format_crawl(settings)
    if status.dead:
        yield "list the failures", f"swath dead --store {shlex.quote(settings.out)}"
        if can_repair:
            run = "" if settings.run is None else f"--run {shlex.quote(settings.run)} "
            yield "repair after a fix", f"swath extract {run}--failed --out {shlex.quote(settings.out)}"
        yield "try them again", f"{_format_crawl(settings)} --retry-failed"
    if result.startswith(f"{NOTHING}: private: "):
        yield "permit the address", f"{_format_crawl(settings)} --allow-private"


def print_summary(settings: CrawlSettings, result: str, rows: Pairs, next_steps: Iterable[tuple[str, str]]) -> None:
    """Print the result, the rows of the summary, and the commands. Commands are not wrapped, so they can be copied."""
    rows = [("result", result), *rows]
    if not is_terminal():
        print_facts("", [*rows, *(("next", command) for _, command in next_steps)])
        return
    print_facts(f"the crawl in {settings.out}", rows)
    for purpose, command in next_steps:
        print_line(f"{purpose + ':':<20}{command}")


def _format_crawl(settings: CrawlSettings) -> str:
    """Return the command that resumes this crawl, without what the directory knows and without limits of one run."""
    words = ["swath", "crawl", "--out", settings.out]
    for name, info in SETTINGS.items():
        value = getattr(settings, name)
        if not info.saved and name not in NOT_REPEATED and value != CrawlSettings.__dataclass_fields__[name].default:
            words += _format_option(format_flag(name), value)
    return shlex.join(words)


def _format_option(flag: str, value: Any) -> list[str]:
    match value:
        case True:
            return [flag]
        case tuple():
            return [word for one in value for word in (flag, one)]
        case float():
            return [flag, f"{value:g}s"]
        case _:
            return [flag, mask_password(value) if isinstance(value, str) else f"{value}"]
