"""Discard a crawl, so that `--fresh` can start over: its frontier, its output, its settings and its seeds.

A marker file is written first and removed last. While it exists, a crawl in this directory is refused unless it has
`--fresh`, which discards the rest. The frontier goes before `crawl.json`, which has its URL.
"""

import asyncio
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import swath
from swath import NotAFrontier, UsageError, mask_password
from swath.crawl import seeds, settings_file, workspace
from swath.crawl.archive import index, warc_index
from swath.crawl.job import count_pages
from swath.crawl.settings import CrawlSettings
from swath.files.replace_file import NEW, replace_file, sync_directory


class CrawlContents(NamedTuple):
    """What a crawl would lose."""

    directory: Path
    warc_files: int
    warc_bytes: int
    list_files: int
    pages: int
    queued: int
    store: str | None  # the URL without its password; None if there is no frontier


async def read_contents(settings: CrawlSettings) -> CrawlContents | None:
    """Return what belongs to the crawl of these settings; None if there is nothing.

    Raise UsageError if the frontier or a file belongs to something else.
    """
    settings_file.check_same_store(settings)
    directory, pages, queued, store = settings.directory, 0, 0, None
    known: dict[str, int] = {}
    try:
        async with swath.open(settings.store_url, create=False) as frontier:
            if await workspace.check_is_crawl(frontier, settings):
                known = await workspace.read_committed_lengths(frontier, settings)
            status = await frontier.status()
            pages, queued = await count_pages(frontier), status.waiting
            store = mask_password(settings.store_url)
    except NotAFrontier:
        pass
    outputs = workspace.list_outputs(directory)
    for path in outputs:
        if path.name not in known and not workspace.is_own_output(directory, path.name):
            raise UsageError(f"{path} belongs to another crawl: move the files of that crawl away first")
    if store is None and not outputs and not any((directory / name).exists() for name in _list_small_files()):
        return None
    warcs = [path.stat().st_size for path in outputs if path.name.endswith(".warc.gz")]
    return CrawlContents(directory, len(warcs), sum(warcs), len(outputs) - len(warcs), pages, queued, store)


async def discard_crawl(settings: CrawlSettings) -> None:
    """Delete the crawl. Raise OutputBusy if a process writes to the directory, StoreUnavailable if one uses the
    frontier; then nothing is deleted."""
    directory = settings.directory
    marker = directory / workspace.DISCARD_MARKER
    interrupted = marker.exists()
    with ExitStack() as stack:
        for output in workspace.open_outputs(settings):
            stack.callback(output.close)
        await asyncio.to_thread(replace_file, marker, [])
        try:
            await swath.delete(settings.store_url)
        except NotAFrontier:
            pass
        except BaseException:
            if not interrupted:
                marker.unlink()
            raise
        await asyncio.to_thread(_remove_files, directory)


def _remove_files(directory: Path) -> None:
    for name in _list_small_files():
        for path in (directory / name, directory / (name + NEW)):
            path.unlink(missing_ok=True)
    for path in directory.glob(f"{warc_index.RUNS_PREFIX}*"):
        if path.is_dir():
            shutil.rmtree(path)
    for path in workspace.list_outputs(directory):
        for suffix in (warc_index.SUFFIX, warc_index.SUFFIX + NEW, ""):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    sync_directory(directory)
    (directory / workspace.DISCARD_MARKER).unlink()
    sync_directory(directory)


def _list_small_files() -> list[str]:
    return [index.FILE, settings_file.FILE, seeds.FILE, seeds.UNQUEUED_FILE]
