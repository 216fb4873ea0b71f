"""Examine a store: gather the facts of all topics, and return the problems."""

from collections.abc import Sequence
from pathlib import Path

import swath
from swath import (
    MissingExtra,
    Problem,
    SchemaOutdated,
    SchemaTooNew,
    StoreFull,
    StoreUnavailable,
    StoreURL,
    mask_password,
)
from swath.cli.doctor import machine, queue
from swath.cli.store_argument import find_frontier

CRAWL_FILE = "crawl.json"  # in the directory of a crawl


async def examine_store(
    store: str | None, *, workers: int | None, dns_servers: Sequence[str]
) -> tuple[str, Sequence[Problem]]:
    """Return the URL of a store that the user named, and what is wrong with it."""
    url = await find_frontier(store)
    path = Path(StoreURL.parse(url).path) if StoreURL.parse(url).scheme == "sqlite" else None
    directory = _find_crawl(store, path)
    problems: list[Problem] = []
    if path is not None:
        problems += machine.check_file_system(str(path), machine.read_mounts(machine.MOUNTS))
    problems += machine.check_descriptors(machine.read_hard_limit(), workers=workers or 1)
    problems += await _examine_database(url)
    problems += await _examine_queue(url, path if directory is None else directory, workers)
    if directory is not None:
        problems += await _examine_names(directory, dns_servers)
    return url, problems


def _find_crawl(store: str | None, path: Path | None) -> Path | None:
    """Return the directory of a crawl: that which the user named, or that of its frontier."""
    for directory in (Path(store or "."), None if path is None else path.parent):
        if directory is not None and (directory / CRAWL_FILE).is_file():
            return directory
    return None


async def _examine_database(url: str) -> Sequence[Problem]:
    try:
        return await swath.examine(url)
    except (StoreUnavailable, StoreFull):
        return []  # opening the frontier says so


async def _examine_queue(url: str, path: Path | None, workers: int | None) -> Sequence[Problem]:
    try:
        async with swath.open(url, create=False) as frontier:
            status = await frontier.status()
            totals = await queue.read_lanes(frontier)
            lost = await queue.count_lost(frontier) if status.dead else 0
            skew = await queue.read_skew(frontier)
    except SchemaOutdated as error:
        return [Problem("schema", str(error), f"run `swath db migrate --store '{mask_password(url)}'`")]
    except SchemaTooNew as error:
        return [Problem("schema", str(error), "upgrade swath on this machine")]
    except (StoreUnavailable, StoreFull) as error:
        return [Problem("store-away", str(error), "start the server, or cure what the message names")]
    found = list(queue.list_problems(totals, workers=workers, lost=lost, skew=skew))
    if path is not None:
        growth = machine.measure_growth(path, settled=status.done + status.dead, waiting=status.waiting)
        found += machine.check_disk(growth)
    return found


async def _examine_names(directory: Path, servers: Sequence[str]) -> Sequence[Problem]:
    try:
        from swath.cli.doctor import names
        from swath.crawl import seeds
        from swath.crawl.urls import normalise
    except ImportError as error:
        raise MissingExtra("`swath doctor` of a crawl needs more packages: pip install 'swath[crawl]'") from error
    host = normalise.host(seeds.read_first_seed(directory)) if seeds.has_seeds(directory) else ""
    return list(names.check_names(host, await names.resolve(host, servers))) if host else []
