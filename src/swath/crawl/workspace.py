"""Place: the directory of a crawl: its settings, seeds and output, made ready before any process starts."""

import asyncio
import fcntl
import os
import re
import secrets
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, TextIO

import swath
from swath.core.errors import NotAFrontier, UsageError
from swath.core.item import DEFAULT_PRIORITY, Item
from swath.core.redact import mask_password
from swath.core.status import Status
from swath.crawl.archive.output import CrawlOutput
from swath.crawl.lanes import lane_naming
from swath.crawl.settings import MANY_HOSTS, CrawlSettings
from swath.crawl.urls import normalise
from swath.crawl.urls.scope import NameSet, Scope, build_scope
from swath.opening import Opening

SEEDS = "seeds.txt"
NAME = "archive-name"
AT_ONCE = 1_000
MIN_ATTEMPTS = 5
SETTINGS = "crawl settings"  # the key of a fact: what `swath explain` and other machines go by
ARCHIVE = "archive "  # before the name of an archive: the key of a fact, by which a crawl knows its own

_OURS = re.compile(r"(?:swath|pages)-\d{17}-\d+-(?P<name>.+)~(?P<number>\d+)\.(?:warc\.gz|jsonl\.gz)")


class Prepared:
    """What was found and made: how many seeds were new, and what differs from the run before."""

    def __init__(self, added: int, changes: Sequence[str], resumed: bool) -> None:
        self.added = added
        self.changes = changes
        self.resumed = resumed


async def prepare(settings: CrawlSettings, seeds: Iterable[str]) -> Prepared:
    """Make directory and frontier ready: nothing that a crash left is in the way, and the seeds, URLs as `read_seeds`
    has them, are queued."""
    directory = settings.directory
    made = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        try:
            new = stack.enter_context(TemporaryFile("w+", dir=directory))  # noqa: SIM115  the stack closes it
            changes = settings.changes()
            resumed = await _resumed(settings)
            if not resumed:
                _refuse_orphans(directory)
            _check_seeds(settings, seeds, new)
            if not new.tell():
                _refuse_no_seeds(settings, resumed)
            if resumed:
                await asyncio.to_thread(_mend, settings, await _own_lengths(settings))
            frontier = await stack.enter_async_context(_opened(settings))
        except BaseException:  # what is refused leaves nothing behind
            with suppress(OSError):
                for path in made:
                    path.rmdir()
            raise
        _keep(settings, new)
        # Before the first seed: work without it is taken for that of others.
        out = str(directory.resolve())
        await frontier.learn({SETTINGS: {**settings.saved(), "out": out}, ARCHIVE + archive_name(directory): out})
        added = await frontier.add(_items(settings, new))
    settings.save()
    return Prepared(added, changes, resumed)


def _opened(settings: CrawlSettings) -> Opening:
    return swath.open(
        settings.store_url,
        min_interval=settings.min_interval,
        concurrency=settings.max_workers_per_host,
        max_attempts=max(MIN_ATTEMPTS, settings.retries + 1),
    )


async def _resumed(settings: CrawlSettings) -> bool:
    """Whether the crawl was begun before; UsageError where the frontier holds something else, which stays as it is."""
    try:
        async with swath.open(settings.store_url, create=False) as frontier:
            begun = (await frontier.status()).begun
            if begun and SETTINGS not in await frontier.facts([SETTINGS]):
                raise UsageError(
                    f"{mask_password(settings.store_url)} holds other work than a crawl: name another --store"
                )
            return begun
    except NotAFrontier:
        return False


async def status(settings: CrawlSettings) -> Status:
    async with swath.open(settings.store_url, create=False) as frontier:
        return await frontier.status()


async def committed(settings: CrawlSettings) -> dict[str, int]:
    """The committed length of every output file of the crawl, on whatever machine."""
    async with swath.open(settings.store_url, create=False) as frontier:
        return await frontier.outputs()


def unique(directory: Path, number: int) -> str:
    """What the files of one process are told apart by; the same when the crawl is resumed, on whatever machine."""
    return f"{archive_name(directory)}~{number}"


def archive_name(directory: Path) -> str:
    """What the files of a directory have in common; made up when it is first asked for."""
    with (directory / NAME).open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # processes that begin together mean the same
        file.seek(0)
        name = file.read().strip()
        if not name:
            name = f"{re.sub(r'[^A-Za-z0-9.-]', '', socket.gethostname())[:40]}-{secrets.token_hex(4)}"
            file.write(f"{name}\n")
            file.flush()
            os.fsync(file.fileno())
    return name


def outputs(directory: Path) -> list[Path]:
    """The archive's files in a directory, of whichever process."""
    return sorted(path for path in directory.glob("*.gz") if _OURS.fullmatch(path.name))


def _refuse_orphans(directory: Path) -> None:
    """An archive whose frontier is gone would be cut to nothing."""
    found = outputs(directory)
    if found:
        raise UsageError(
            f"{directory} has an archive ({found[0].name}) and its frontier is empty or gone: "
            "give another --out, or put the frontier back"
        )


async def _own_lengths(settings: CrawlSettings) -> dict[str, int]:
    """The committed length of every output file. UsageError where the directory has the archive of another crawl: files
    that the frontier does not know would be taken for remains of a crash."""
    found = outputs(settings.directory)
    async with swath.open(settings.store_url, create=False) as frontier:
        lengths = await frontier.outputs()
        if found and not any(path.name in lengths for path in found):
            name = ARCHIVE + archive_name(settings.directory)
            if name not in await frontier.facts([name]):
                raise UsageError(
                    f"{settings.directory} has an archive ({found[0].name}) that is not of the crawl in "
                    f"{mask_password(settings.store_url)}: give another --out, or the --store that it belongs to"
                )
    return lengths


def _refuse_no_seeds(settings: CrawlSettings, resumed: bool) -> None:
    if not resumed:
        raise UsageError("there is nothing to crawl: give URLs, or a file of them with --seeds")
    kept = settings.directory / SEEDS
    if settings.scope != "any" and not (kept.exists() and kept.stat().st_size):
        raise UsageError(
            f"{settings.directory} has no seeds, by which the scope is drawn: "
            "a machine that joins a crawl is given the same"
        )


def _mend(settings: CrawlSettings, committed: dict[str, int]) -> None:
    """Cut off what processes of an earlier run wrote and did not settle, also those that this run has not. Refused
    while one of them writes."""
    if not (settings.directory / NAME).exists():
        return
    found = [_OURS.fullmatch(path.name) for path in outputs(settings.directory)]
    for number in sorted({0, *(int(match["number"]) for match in found if match)}):
        output = CrawlOutput(
            settings.directory, unique=unique(settings.directory, number), warc_size=settings.warc_size, about={}
        )
        try:
            output.restore(committed)
        finally:
            output.close()


# seeds


def read_seeds(lines: Iterable[str], *, file: str | None = None) -> Iterator[str]:
    """The URLs that lines mean, in a stream; blank ones and comments mean none. `file` is where they are from."""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        url = normalise.parse_seed(text)
        if url is None:
            where = "" if file is None else f"line {number:,} of {file}: "
            meant = normalise.suggest_seed(text)
            hint = "" if meant is None else f": did you mean {meant}?"
            raise UsageError(f"{where}{text!r} is no URL or host name that can be crawled{hint}")
        yield url


def _check_seeds(settings: CrawlSettings, seeds: Iterable[str], new: TextIO) -> None:
    """A file of the seeds, written in a stream: what is wrong with any is said before the first is queued."""
    hosts: set[str] = set()
    for chunk in _chunks(seeds):
        if settings.contact is None:
            hosts.update(map(normalise.host, chunk))
            if len(hosts) > MANY_HOSTS:
                raise UsageError(want_contact(f"the seeds are on more than {MANY_HOSTS} hosts"))
        new.writelines(f"{url}\n" for url in chunk)


def _keep(settings: CrawlSettings, new: TextIO) -> None:
    """Seeds are kept, by which the scope is drawn again; a resume that gives the same ones adds nothing."""
    with (settings.directory / SEEDS).open("a+b") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)  # runs that begin together do not write into each other's lines
        known = NameSet(_whole_lines(kept))
        new.seek(0)
        kept.writelines(line.encode() for line in new if line.rstrip("\n") not in known)


def _whole_lines(file: BinaryIO) -> Iterator[str]:
    """The lines of a file. What a crash left of one is cut off, or the next seed would become part of it."""
    end = file.seek(0)
    for line in file:
        if line.endswith(b"\n"):
            end += len(line)
            yield line.decode().rstrip("\n")
    file.truncate(end)


async def _items(settings: CrawlSettings, new: TextIO) -> AsyncIterator[Item]:
    """Items for the seeds, in a stream."""
    lane = lane_naming(settings.lane)
    new.seek(0)
    for line in new:
        url = line.rstrip("\n")
        yield Item(url, lane(url), DEFAULT_PRIORITY, {"depth": 0})


def want_contact(why: str) -> str:
    return (
        f"{why}, and nobody is named whom their owners can write to: give --contact with an e-mail address or a URL. "
        "It is sent with every request"
    )


def _chunks(seeds: Iterable[str]) -> Iterator[list[str]]:
    each = iter(seeds)
    while chunk := list(islice(each, AT_ONCE)):
        yield chunk


def scope(settings: CrawlSettings) -> Scope:
    """The scope around all seeds that this directory has had."""
    with (settings.directory / SEEDS).open() as kept:
        hosts: Iterable[str] = ()
        if settings.exclude_hosts is not None:
            hosts = Path(settings.exclude_hosts).read_text().splitlines()
        return build_scope(
            settings.scope,
            seeds=(line.strip() for line in kept),
            include=settings.include,
            exclude=settings.exclude,
            excluded_hosts=hosts,
            depth=settings.depth,
        )
