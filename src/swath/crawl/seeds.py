"""Seeds: the URLs a crawl starts from. They are checked, saved in `seeds.txt`, and define the scope of the crawl."""

import fcntl
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TextIO

from swath import Item, UsageError
from swath.crawl.lanes import get_lane_namer
from swath.crawl.priority import choose_priority
from swath.crawl.settings import MAX_HOSTS_WITHOUT_CONTACT, CrawlSettings
from swath.crawl.urls import normalise
from swath.crawl.urls.scope import NameSet, Scope, build_scope

FILE = "seeds.txt"
CHUNK = 1_000  # seeds checked at once


def read_seeds(lines: Iterable[str], *, file: str | None = None) -> Iterator[str]:
    """Yield the URL of each line, and skip blank lines and comments. `file` is named in error messages."""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        url = normalise.parse_seed(text)
        if url is None:
            where = "" if file is None else f"line {number:,} of {file}: "
            if (port := normalise.find_blocked_port(text)) is not None:
                raise UsageError(f"{where}{text!r} cannot be crawled: port {port} is blocked, as in browsers")
            meant = normalise.suggest_seed(text)
            hint = "" if meant is None else f": did you mean {meant}?"
            raise UsageError(f"{where}{text!r} is not a URL or host name that can be crawled{hint}")
        yield url


def check_seeds(settings: CrawlSettings, seeds: Iterable[str], checked: TextIO) -> None:
    """Write the seeds to `checked`, one per line, before any of them is queued.

    Raise UsageError if a seed is not a URL, or if their hosts are too many for a crawl without --contact.
    """
    hosts: set[str] = set()
    for chunk in _split_into_chunks(seeds):
        if settings.contact is None:
            hosts.update(map(normalise.host, chunk))
            if len(hosts) > MAX_HOSTS_WITHOUT_CONTACT:
                raise UsageError(ask_for_contact(f"the seeds are on more than {MAX_HOSTS_WITHOUT_CONTACT} hosts"))
        checked.writelines(f"{url}\n" for url in chunk)


def ask_for_contact(why: str) -> str:
    """Return the message for a crawl that needs --contact."""
    return (
        f"{why}, so the owners of these hosts need a contact: give --contact with an e-mail address or a URL. "
        "swath sends it with every request"
    )


def _split_into_chunks(seeds: Iterable[str]) -> Iterator[list[str]]:
    each = iter(seeds)
    while chunk := list(islice(each, CHUNK)):
        yield chunk


def save_seeds(directory: Path, seeds: TextIO) -> None:
    """Append the new seeds to `seeds.txt`."""
    with (directory / FILE).open("a+b") as saved:
        fcntl.flock(saved, fcntl.LOCK_EX)  # another run may start at the same time
        known = NameSet(_read_whole_lines(saved))
        seeds.seek(0)
        saved.writelines(line.encode() for line in seeds if line.rstrip("\n") not in known)


def _read_whole_lines(file: BinaryIO) -> Iterator[str]:
    """Yield the lines of a file, and truncate a partial last line that a crash left."""
    end = file.seek(0)
    for line in file:
        if line.endswith(b"\n"):
            end += len(line)
            yield line.decode().rstrip("\n")
    file.truncate(end)


def has_seeds(directory: Path) -> bool:
    saved = directory / FILE
    return saved.exists() and saved.stat().st_size > 0


def read_first_seed(directory: Path) -> str:
    with (directory / FILE).open() as saved:
        return saved.readline().strip()


async def make_seed_items(settings: CrawlSettings, seeds: TextIO) -> AsyncIterator[Item]:
    """Yield an item for each seed of a file."""
    lane_of = get_lane_namer(settings.lane)
    priority = choose_priority(settings.priority_by, 0)
    seeds.seek(0)
    for line in seeds:
        url = line.rstrip("\n")
        yield Item(url, lane_of(url), priority, {"depth": 0})


def is_seed(item: Item) -> bool:
    """Return whether an item is a seed: pages and sitemaps that were found elsewhere have a referrer."""
    payload = item.payload or {}
    return not payload.get("depth", 0) and "from" not in payload


def load_scope(settings: CrawlSettings) -> Scope:
    """Return the scope around all seeds that were ever given for this directory."""
    with (settings.directory / FILE).open() as saved:
        hosts: Iterable[str] = ()
        if settings.exclude_hosts is not None:
            hosts = Path(settings.exclude_hosts).read_text().splitlines()
        return build_scope(
            settings.scope,
            seeds=(line.strip() for line in saved),
            include=settings.include,
            exclude=settings.exclude,
            excluded_hosts=hosts,
            depth=settings.depth,
        )
