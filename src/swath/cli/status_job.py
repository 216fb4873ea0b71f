"""The job that a frontier belongs to, in its own words: pages of a crawl, keys of a backfill, records of a scan.

A frontier does not know its job: each job leaves a fact or an item in it by which it is recognised here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from swath import Frontier
from swath.cli.formatting import format_json, pluralize

CRAWL_SETTINGS = "crawl settings"  # keys of facts
SCAN = "scan"
SCAN_ENDED = "scan ended"
PAGES = "pages"  # a counter


class Kind(StrEnum):
    """What kind of job a frontier belongs to."""

    PLAIN = "plain"
    CRAWL = "crawl"
    BACKFILL = "backfill"
    SCAN = "scan"


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as `swath status` shows it."""

    kind: Kind
    noun: str = "items"  # what an item of the frontier is
    pairs: Sequence[tuple[str, str]] = ()  # names and values for people
    data: Mapping[str, Any] = field(default_factory=dict)  # for --json
    share: float | None = None  # of the job that is done, if that is not the share of settled items
    share_of: str = ""  # what the share is of, such as `of the keys are covered`


PLAIN = JobView(Kind.PLAIN)


async def read_kind(frontier: Frontier) -> Kind:
    """Return the kind of job without reading its progress."""
    facts = await frontier.facts([CRAWL_SETTINGS, SCAN])
    if CRAWL_SETTINGS in facts:
        return Kind.CRAWL
    if SCAN in facts:
        return Kind.SCAN
    from swath.backfill.progress import read_description

    return Kind.PLAIN if await read_description(frontier) is None else Kind.BACKFILL


async def read_job(frontier: Frontier) -> JobView:
    """Return the job of a frontier with its progress."""
    match await read_kind(frontier):
        case Kind.CRAWL:
            return await _read_crawl(frontier)
        case Kind.SCAN:
            return await _read_scan(frontier)
        case Kind.BACKFILL:
            return await _read_backfill(frontier)
        case Kind.PLAIN:
            return PLAIN


async def _read_crawl(frontier: Frontier) -> JobView:
    settings = (await frontier.facts([CRAWL_SETTINGS]))[CRAWL_SETTINGS]
    pages = (await frontier.counters()).get(PAGES, 0)
    pairs = [("crawl", f"into {settings['out']}"), ("pages", f"{pages:,} fetched")]
    return JobView(Kind.CRAWL, "URLs", pairs, {"out": settings["out"], "pages": pages})


async def _read_scan(frontier: Frontier) -> JobView:
    from swath.cli.scan_progress import list_progress, progress_to_json
    from swath.scan.progress import read_progress

    facts = await frontier.facts([SCAN, SCAN_ENDED])
    progress = await read_progress(frontier)
    assert progress is not None
    settings, counts = facts[SCAN]["settings"], progress.counts
    how = f"against {settings['against']}" if settings["against"] else f"with {settings['check']}"
    found = ", ".join(f"{code} {number:,}" for code, number in counts.open.most_common())
    pairs = [
        ("scan", f"{settings['source']} {how}"),
        *((name, value) for name, value in list_progress(progress) if name != "share" or progress.share is None),
        ("findings", f"{pluralize(counts.open.total(), 'open finding')}: {found}" if found else "none open"),
    ]
    data = {
        "source": settings["source"],
        "against": settings["against"],
        "check": settings["check"],
        **progress_to_json(progress),
        "began": facts[SCAN]["began"],
        "ended": facts.get(SCAN_ENDED),
    }
    return JobView(Kind.SCAN, "slices", pairs, data, progress.share, "of the source is scanned")


async def _read_backfill(frontier: Frontier) -> JobView:
    from swath.backfill.progress import read_progress

    progress = await read_progress(frontier)
    assert progress is not None
    table, columns = progress.about["table"], progress.about["key_columns"]
    pairs = [("backfill", f"{table} by {', '.join(columns)}")]
    end = "" if progress.upto is None else f" of {_format_key(progress.upto)}"
    if progress.complete:
        pairs.append(
            ("covered", "every row" if progress.upto is None else f"every row, up to{end.removeprefix(' of')}")
        )
    elif progress.key is None:
        pairs.append(("covered", "nothing yet"))
    else:
        pairs.append(("covered", f"up to {_format_key(progress.key)}{end}"))
    data = {
        "table": table,
        "key": columns,
        "covered": progress.key,
        "upto": progress.upto,
        "share": progress.share,
        "dead": progress.dead,
        "complete": progress.complete,
    }
    return JobView(Kind.BACKFILL, "slices", pairs, data, progress.share, "of the keys are covered")


def _format_key(key: Sequence[Any]) -> str:
    return str(key[0]) if len(key) == 1 else format_json(list(key))
