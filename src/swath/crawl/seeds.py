"""Seeds: the URLs a crawl starts from. They are checked, saved in `seeds.txt`, and define the scope of the crawl."""

import fcntl
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, TextIO

from swath import Frontier, Item, UsageError
from swath.crawl.fallback import BARE
from swath.crawl.http.address import is_public, parse_ip_literal
from swath.crawl.lanes import get_lane_namer
from swath.crawl.priority import choose_priority
from swath.crawl.seed_list import BadSeed, Seed, parse_seed
from swath.crawl.settings import MAX_HOSTS_WITHOUT_CONTACT, CrawlSettings
from swath.crawl.urls import normalise
from swath.crawl.urls.scope import NameSet, Scope, build_scope
from swath.files.replace_file import replace_file

FILE = "seeds.txt"
UNQUEUED_FILE = "seeds-unqueued.txt"  # exists while seeds are queued, and after a start that was killed meanwhile
REPORT_EVERY = 1_000  # seeds that are read between two reports of the progress
ADD_BATCH = 10_000  # seeds that are added at once
BARE_MARK = "\t"  # ends the line of a bare seed in the file of checked seeds

READ, QUEUED = "read", "queued"
ReportProgress = Callable[[str, int], None]  # READ or QUEUED, and how many seeds were so far


def report_nothing(doing: str, count: int, /) -> None:
    """Do not report progress."""


class SeedRules:
    """The settings that a seed must obey before it is queued."""

    def __init__(self, settings: CrawlSettings) -> None:
        self._scope = build_settings_scope(settings)
        # --connect-to may replace any host, and a proxy resolves names itself.
        self._checks_addresses = not settings.allow_private and not settings.connect_to
        self._checks_names = self._checks_addresses and settings.proxy is None

    def check(self, seed: Seed) -> None:
        """Raise BadSeed if the settings exclude a seed, or if its address is known and not public."""
        if (reason := self._scope.find_seed_refusal(seed.url)) is not None:
            hint = ". Seeds must match, too" if reason == "include" else ""
            raise BadSeed(f"is excluded: {self._scope.describe_rule(reason, seed.url, 0)}{hint}")
        host = normalise.host(seed.url)
        address = parse_ip_literal(host)
        if address is None:
            private = self._checks_names and normalise.is_this_machine(host)
        else:
            private = self._checks_addresses and not is_public(address)
        if private:
            raise BadSeed("has an address that is not public: give --allow-private to crawl it")


def read_seeds(texts: Iterable[str], rules: SeedRules | None = None) -> Iterator[Seed]:
    """Yield the seed of each text. Raise UsageError for the first that is not a seed, or that the rules exclude."""
    for text in texts:
        try:
            seed = parse_seed(text)
            if rules is not None:
                rules.check(seed)
        except BadSeed as error:
            raise UsageError(f"{text.strip()!r} {error}") from None
        yield seed


async def check_seeds(
    settings: CrawlSettings, seeds: Iterable[Seed] | AsyncIterable[Seed], checked: TextIO, *, report: ReportProgress
) -> int:
    """Write the seeds to `checked`, one per line, before any of them is queued. Return how many there are.

    Raise UsageError if their hosts are too many for a crawl without --contact.
    """
    hosts: set[str] = set()
    count = 0
    async for url, bare in _iterate(seeds):
        if settings.contact is None:
            hosts.add(normalise.host(url))
            if len(hosts) > MAX_HOSTS_WITHOUT_CONTACT:
                raise UsageError(ask_for_contact(f"the seeds are on more than {MAX_HOSTS_WITHOUT_CONTACT} hosts"))
        checked.write(f"{url}{BARE_MARK}\n" if bare else f"{url}\n")
        count += 1
        if count % REPORT_EVERY == 0:
            report(READ, count)
    report(READ, count)
    return count


async def _iterate(seeds: Iterable[Seed] | AsyncIterable[Seed]) -> AsyncIterator[Seed]:
    if isinstance(seeds, AsyncIterable):
        async for seed in seeds:
            yield seed
    else:
        for seed in seeds:
            yield seed


def ask_for_contact(why: str) -> str:
    """Return the message for a crawl that needs --contact."""
    return (
        f"{why}, so the owners of these hosts need a contact: give --contact with an e-mail address or a URL. "
        "swath sends it with every request"
    )


def save_seeds(directory: Path, files: Sequence[TextIO]) -> None:
    """Append the new seeds of files that `check_seeds` has written to `seeds.txt`.

    Until `queue_seeds` has added all of them, another file has them, too.
    """
    with (directory / FILE).open("a+b") as saved:
        fcntl.flock(saved, fcntl.LOCK_EX)  # another run may start at the same time
        replace_file(directory / UNQUEUED_FILE, _read_lines(files))
        known = NameSet(_read_whole_lines(saved))
        urls = (line.rstrip() for line in _read_lines(files))
        saved.writelines(f"{url}\n".encode() for url in urls if url not in known)


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


def open_unqueued(directory: Path) -> TextIO:
    """Open the seeds that an earlier start has not queued because it was killed."""
    try:
        return (directory / UNQUEUED_FILE).open()
    except FileNotFoundError:
        return StringIO()


def _read_lines(files: Sequence[TextIO]) -> Iterator[str]:
    for file in files:
        file.seek(0)
        yield from file


async def queue_seeds(
    frontier: Frontier, settings: CrawlSettings, files: Sequence[TextIO], *, report: ReportProgress
) -> int:
    """Add an item for each seed of files that `check_seeds` has written; return how many are new."""
    items = make_seed_items(settings, _read_lines(files))
    queued = added = 0
    report(QUEUED, 0)
    while batch := list(islice(items, ADD_BATCH)):
        added += await frontier.add(batch)
        queued += len(batch)
        report(QUEUED, queued)
    (settings.directory / UNQUEUED_FILE).unlink(missing_ok=True)
    return added


def make_seed_items(settings: CrawlSettings, lines: Iterable[str]) -> Iterator[Item]:
    """Yield the items of lines that `check_seeds` has written."""
    lane_of = get_lane_namer(settings.lane)
    priority = choose_priority(settings.priority_by, 0)
    for line in lines:
        url = line.rstrip()
        payload = {"depth": 0, BARE: True} if line.endswith(f"{BARE_MARK}\n") else {"depth": 0}
        yield Item(url, lane_of(url), priority, payload)


def is_seed(item: Item) -> bool:
    """Return whether an item is a seed: pages and sitemaps that were found elsewhere have a referrer."""
    payload = item.payload or {}
    return not payload.get("depth", 0) and "from" not in payload


def load_scope(settings: CrawlSettings, more: Iterable[str] = ()) -> Scope:
    """Return the scope around all seeds that were ever given for this directory, and some more."""
    with (settings.directory / FILE).open() as saved:
        return build_settings_scope(settings, chain((line.strip() for line in saved), more))


def build_settings_scope(settings: CrawlSettings, seeds: Iterable[str] = ()) -> Scope:
    """Return the scope around some seeds."""
    hosts: Iterable[str] = ()
    if settings.exclude_hosts is not None:
        hosts = Path(settings.exclude_hosts).read_text().splitlines()
    return build_scope(
        settings.scope,
        seeds=seeds,
        include=settings.include,
        exclude=settings.exclude,
        excluded_hosts=hosts,
        depth=settings.depth,
    )
