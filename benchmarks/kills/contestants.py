"""The crawlers: how each is started and resumed, as its documentation recommends, and where its items are."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.kills.settings import HERE

AT_ONCE = 8  # requests in flight
LEASE = "3s"  # of swath: a run waits that long for the pages that the killed one had in flight
SPIDERS = HERE / "spiders"
SCRAPY_SQLITE = ("-s", "SCHEDULER_DISK_QUEUE=scrapy.squeues.PickleFifoSQLiteQueue")
BROKEN: Mapping[str, Any] = {}  # an item that cannot be read


@dataclass(frozen=True, slots=True)
class Contestant:
    """A crawler. Its command is repeated after each kill."""

    name: str
    command: Sequence[str]
    """`{url}` and `{store}` are filled in."""
    items: str
    """The file with the items."""
    environment: Mapping[str, str] = field(default_factory=dict)
    finished: str = ""
    """What its output has if it says that the crawl is finished, besides exit code 0."""


def _swath(name: str, *more: str) -> Contestant:
    command = [
        sys.executable, "-m", "swath", "crawl", "{url}", "--run", "books_swath:crawler", "--items", "books.jsonl",
        "--delay", "0", "--max-workers-per-host", str(AT_ONCE), "--allow-private", "--lease", LEASE,
        "--json", *more,
    ]  # fmt: skip
    return Contestant(name, command, "books.jsonl", finished='"stopped_by": "done"')


def _scrapy(name: str, feed: str, *more: str) -> Contestant:
    command = [
        sys.executable, "-m", "scrapy", "runspider", str(SPIDERS / "books_scrapy.py"), "-a", "url={url}", feed,
        "books.jsonl", "-s", "DOWNLOAD_DELAY=0", "-s", f"CONCURRENT_REQUESTS_PER_DOMAIN={AT_ONCE}", "-s",
        "TELNETCONSOLE_ENABLED=False", "-s", "LOG_LEVEL=INFO", *more,
    ]  # fmt: skip
    return Contestant(name, command, "books.jsonl", finished="Spider closed (finished)")


def _crawlee(name: str, storage: str) -> Contestant:
    command = [sys.executable, str(HERE / "run_crawlee.py"), "{url}", str(AT_ONCE), storage]
    return Contestant(name, command, "books.json", {"CRAWLEE_PURGE_ON_START": "0"}, finished="Final request statistics")


CONTESTANTS: Mapping[str, Contestant] = {
    "swath": _swath("swath, SQLite"),
    "swath-2": _swath("swath, SQLite, 2 processes", "--processes", "2"),
    "swath-postgres": _swath("swath, PostgreSQL, 2 processes", "--processes", "2", "--store", "{store}"),
    "scrapy": _scrapy("Scrapy, memory, feed appended (`-o`)", "-o"),
    "scrapy-overwrite": _scrapy("Scrapy, memory, feed overwritten (`-O`)", "-O"),
    "scrapy-jobdir": _scrapy("Scrapy, `JOBDIR`", "-o", "-s", "JOBDIR=job"),
    "scrapy-sqlite": _scrapy("Scrapy, `JOBDIR`, `PickleFifoSQLiteQueue`", "-o", "-s", "JOBDIR=job", *SCRAPY_SQLITE),
    "crawlee": _crawlee("Crawlee, `FileSystemStorageClient`", "file"),
    "crawlee-sqlite": _crawlee("Crawlee, `SqlStorageClient` on SQLite", "sqlite"),
}


def make_environment(contestant: Contestant) -> dict[str, str]:
    """Return the environment of this process, in which Python finds this tree and the spiders first."""
    root = HERE.parent.parent
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SWATH_", "CRAWLEE_"))}
    paths = [str(root / "src"), str(SPIDERS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), "NO_COLOR": "1", **contestant.environment}


def read_items(file: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the items of a file; `BROKEN` for each line of JSON Lines that is not a JSON object."""
    if not file.exists():
        return
    text = file.read_text(encoding="utf-8", errors="replace")
    if file.suffix == ".json":
        yield from json.loads(text)
        return
    for line in text.splitlines():
        try:
            item = json.loads(line)
        except ValueError:
            item = BROKEN
        yield item if isinstance(item, dict) else BROKEN
