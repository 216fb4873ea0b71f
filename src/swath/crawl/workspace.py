"""Workspace: the directory of a crawl with its settings, seeds and output, and the frontier that belongs to it."""

import asyncio
import fcntl
import os
import re
import secrets
import socket
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TextIO

import swath
from swath import Frontier, NotAFrontier, Observer, UsageError, mask_password
from swath.crawl import seeds
from swath.crawl.archive.output import CrawlOutput
from swath.crawl.handlers.code import CODE_FACT, CrawlCode, check_code, merge_code
from swath.crawl.reopening import reopen_private
from swath.crawl.seed_list import Seed
from swath.crawl.settings import CrawlSettings
from swath.crawl.settings_file import find_changes, save_settings
from swath.crawl.start import make_start_item

NAME_FILE = "archive-name"
MIN_ATTEMPTS = 5  # of an item in the frontier, in addition to the crawler's own --retries
SETTINGS_FACT = "crawl settings"  # key of the fact that `swath explain` and other machines read
SEEDLESS_FACT = "crawl without given seeds"  # key of the fact: whether all seeds come from `@crawler.start`
DISCARD_MARKER = "discarding"  # exists while --fresh discards the crawl
ARCHIVE_FACT_PREFIX = "archive "  # key of the fact that marks an archive as this crawl's: this prefix and its name

# Archives of earlier versions have "~" instead of "_", which WACZ does not allow.
_OUTPUT_FILE = re.compile(
    r"(?:swath|pages|items-\w+)-\d{17}-\d+-(?P<name>.+)[_~](?P<number>\d+)\.(?:warc\.gz|jsonl\.gz)"
)


@dataclass(frozen=True, slots=True)
class Workspace:
    """A crawl that is ready to run. `frontier` is open; `changes` describes settings that differ from the last run."""

    settings: CrawlSettings
    frontier: Frontier
    added: int  # new seeds
    changes: Sequence[str]
    resumed: bool


@asynccontextmanager
async def open_workspace(
    settings: CrawlSettings,
    given: Iterable[Seed] | AsyncIterable[Seed],
    *,
    discard: Callable[[], Awaitable[None]] | None = None,
    report: seeds.ReportProgress = seeds.report_nothing,
    code: CrawlCode | None = None,
    observer: Observer | None = None,
) -> AsyncIterator[Workspace]:
    """Open or create the directory and the frontier, truncate output that a crash left, and queue the given seeds.

    `code` has the handlers of the crawl. `discard` is called after the seeds are checked, to start over. A UsageError
    before that leaves directory and frontier as they were.
    """
    directory = settings.directory
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        try:
            workspace = await _prepare(stack, settings, given, discard, report, code, observer)
        except BaseException:
            with suppress(OSError):
                for path in missing:
                    path.rmdir()
            raise
        yield workspace


async def _prepare(
    stack: AsyncExitStack,
    settings: CrawlSettings,
    given: Iterable[Seed] | AsyncIterable[Seed],
    discard: Callable[[], Awaitable[None]] | None,
    report: seeds.ReportProgress,
    code: CrawlCode | None,
    observer: Observer | None,
) -> Workspace:
    directory = settings.directory
    has_start = code is not None and code.crawler.start_handler is not None
    with TemporaryFile("w+", dir=directory) as checked:
        changes = find_changes(settings)
        if discard is not None:
            if not await seeds.check_seeds(settings, given, checked, report=report) and not has_start:
                raise UsageError("--fresh starts over: give the URLs to start from, or --seeds")
            await discard()
        elif (directory / DISCARD_MARKER).exists():
            raise UsageError(f"--fresh was interrupted while it discarded {directory}: run the command with --fresh")
        frontier = await _open_existing(stack, settings, observer)
        resumed = frontier is not None and await check_is_crawl(frontier, settings)
        known_code: dict[str, Any] | None = None
        needs_seeds = True
        if frontier is None or not resumed:
            _refuse_orphans(directory)
        else:
            facts = await frontier.facts([CODE_FACT, SEEDLESS_FACT])
            known_code, needs_seeds = facts.get(CODE_FACT), not facts.get(SEEDLESS_FACT)
            notes = check_code(code, known_code, out=settings.out, same=settings.same_code)
            changes = [*changes, *notes]
        if discard is None and not await seeds.check_seeds(settings, given, checked, report=report):
            if not resumed and not has_start:
                raise UsageError("nothing to crawl: give URLs, or a file of URLs with --seeds; in code, Crawler(URL)")
            if resumed and needs_seeds:
                _require_seeds(settings)
        if frontier is None:
            frontier = await stack.enter_async_context(
                swath.open(settings.store_url, observer=observer, **_build_frontier_settings(settings))
            )
        else:
            if resumed:
                committed = await read_committed_lengths(frontier, settings)
                await asyncio.to_thread(_truncate_uncommitted, settings, committed)
            await _configure(frontier, settings)
            if settings.allow_private:
                newly_allowed = not (await frontier.facts([SETTINGS_FACT])).get(SETTINGS_FACT, {}).get("allow_private")
                if reopened := await reopen_private(frontier, newly_allowed=newly_allowed):
                    changes = [*changes, _describe_reopened(reopened)]
        new: list[TextIO] = [checked]
        if resumed:
            new.insert(0, seeds.open_unqueued(directory))
            stack.callback(new[0].close)
        await asyncio.to_thread(seeds.save_seeds, directory, new)
        # Store this before the first seed: a frontier that has items but not this fact does not belong to a crawl.
        out = str(directory.resolve())
        await frontier.learn(
            {
                SETTINGS_FACT: {**settings.get_saved_values(), "out": out},
                ARCHIVE_FACT_PREFIX + get_archive_name(directory): out,
                SEEDLESS_FACT: not (resumed and needs_seeds) and not seeds.has_seeds(directory),
                **({} if code is None else {CODE_FACT: merge_code(code, known_code)}),
            }
        )
        save_settings(settings)  # first: a start that is killed while it queues seeds may be resumed
        added = await seeds.queue_seeds(frontier, settings, new, report=report)
        if has_start:
            await frontier.add(make_start_item())
    return Workspace(settings, frontier, added, changes, resumed)


# the frontier


def _describe_reopened(count: int) -> str:
    are = "URL that --allow-private permits is" if count == 1 else "URLs that --allow-private permits are"
    return f"{count:,} {are} queued again"


async def _open_existing(stack: AsyncExitStack, settings: CrawlSettings, observer: Observer | None) -> Frontier | None:
    try:
        return await stack.enter_async_context(swath.open(settings.store_url, create=False, observer=observer))
    except NotAFrontier:
        return None


async def check_is_crawl(frontier: Frontier, settings: CrawlSettings) -> bool:
    """Return whether the frontier holds a crawl; raise UsageError if it holds other work."""
    begun = (await frontier.status()).begun
    if begun and SETTINGS_FACT not in await frontier.facts([SETTINGS_FACT]):
        raise UsageError(f"{mask_password(settings.store_url)} holds work that is not a crawl: give another --store")
    return begun


def _build_frontier_settings(settings: CrawlSettings) -> dict[str, Any]:
    return {
        "min_interval": settings.min_interval,
        "concurrency": settings.max_workers_per_host or None,
        "max_attempts": max(MIN_ATTEMPTS, settings.retries + 1),
    }


async def _configure(frontier: Frontier, settings: CrawlSettings) -> None:
    status = await frontier.status()
    changes = {
        name: value for name, value in _build_frontier_settings(settings).items() if value != getattr(status, name)
    }
    if changes:
        await frontier.configure(**changes)


async def read_committed_lengths(frontier: Frontier, settings: CrawlSettings) -> dict[str, int]:
    """Return the committed length of every output file.

    Raise UsageError if the directory has the archive of another crawl: the frontier does not know its files, so they
    would be truncated like the remains of a crash.
    """
    found = list_outputs(settings.directory)
    lengths = await frontier.outputs()
    if found and not any(path.name in lengths for path in found):
        fact = ARCHIVE_FACT_PREFIX + get_archive_name(settings.directory)
        if fact not in await frontier.facts([fact]):
            raise UsageError(
                f"{settings.directory} has an archive ({found[0].name}) that does not belong to the crawl in "
                f"{mask_password(settings.store_url)}: give another --out, or the --store of that archive"
            )
    return lengths


# the directory


def get_output_name(directory: Path, number: int) -> str:
    """Return the name that the output files of one process share. It is the same after a resume."""
    return f"{get_archive_name(directory)}_{number}"


def get_archive_name(directory: Path) -> str:
    """Return the name that all output files of a directory share, and choose it on the first call."""
    with (directory / NAME_FILE).open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # processes that start together must agree on the name
        file.seek(0)
        name = file.read().strip()
        if not name:
            # WACZ allows no other characters in the name of a WARC file, apart from "_".
            name = f"{re.sub(r'[^a-z0-9.-]', '', socket.gethostname().lower())[:40]}-{secrets.token_hex(4)}"
            file.write(f"{name}\n")
            file.flush()
            os.fsync(file.fileno())
    return name


def is_own_output(directory: Path, name: str) -> bool:
    """Return whether an output file has the name of this directory's archive."""
    found = _OUTPUT_FILE.fullmatch(name)
    return found is not None and (directory / NAME_FILE).exists() and found["name"] == get_archive_name(directory)


def list_outputs(directory: Path) -> list[Path]:
    """Return the output files in a directory, of all processes."""
    return sorted(path for path in directory.glob("*.gz") if _OUTPUT_FILE.fullmatch(path.name))


def _refuse_orphans(directory: Path) -> None:
    """Raise UsageError if the directory has an archive whose frontier is gone: a new crawl would truncate it."""
    found = list_outputs(directory)
    if found:
        raise UsageError(
            f"{directory} has an archive ({found[0].name}), but its frontier is empty or gone: "
            "give another --out, restore the frontier, or discard the archive with --fresh"
        )


def _require_seeds(settings: CrawlSettings) -> None:
    """Raise UsageError if the scope of this directory lacks the seeds that were given on other machines."""
    if settings.scope != "any" and not seeds.has_seeds(settings.directory):
        raise UsageError(
            f"{settings.directory} has no seeds, which define the scope: "
            "give a machine that joins a crawl the same seeds as the first one"
        )


def _truncate_uncommitted(settings: CrawlSettings, committed: Mapping[str, int]) -> None:
    """Truncate bytes that an earlier run wrote but did not settle. Raise OutputBusy if such a run is alive."""
    for output in open_outputs(settings):
        try:
            output.restore(committed)
        finally:
            output.close()


def open_outputs(settings: CrawlSettings) -> Iterator[CrawlOutput]:
    """Yield the output of each process that has ever written to the directory, locked. The caller closes it."""
    if not (settings.directory / NAME_FILE).exists():
        return
    found = [_OUTPUT_FILE.fullmatch(path.name) for path in list_outputs(settings.directory)]
    for number in sorted({0, *(int(match["number"]) for match in found if match)}):
        yield CrawlOutput(
            settings.directory,
            unique=get_output_name(settings.directory, number),
            warc_size=settings.warc_size,
            about={},
        )
