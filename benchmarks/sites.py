"""Two equal frontiers, one for swath and one for the floor, which needs its own because it keeps no promises."""

import asyncio
import os
from dataclasses import dataclass

import swath
from benchmarks.floor import Floor
from benchmarks.floor_postgres import PostgresFloor
from benchmarks.floor_sqlite import SqliteFloor
from benchmarks.lab import PARTITIONS, Lab, PostgresLab, SqliteLab
from benchmarks.settings import ITEMS_PER_LANE, Settings
from benchmarks.work import Web

SWATH, FLOOR = "pair_swath", "pair_floor"
LEFT_SHARE = 0.6  # reload the frontiers if fewer of the items are ready


@dataclass(frozen=True, slots=True)
class Site:
    """The two frontiers, as a child process finds them."""

    store: str
    swath_url: str
    floor_at: str  # a path, or a DSN
    floor_name: str
    synchronous: str
    partitions: int
    lanes: int


def load(lab: Lab, settings: Settings, *, lanes_per_partition: int) -> Site:
    """Load both. They have swath's default number of partitions; fewer in a trial run, whose lanes are few."""
    lanes = settings.moves_items // ITEMS_PER_LANE
    partitions = max(1, min(PARTITIONS[lab.store], lanes // lanes_per_partition))
    for name in (SWATH, FLOOR):
        lab.load(name, items=settings.moves_items, partitions=partitions)
    url = lab.url(SWATH)
    if isinstance(lab, SqliteLab):
        return Site("sqlite", url, str(lab.path(FLOOR)), "", lab.synchronous, partitions, lanes)
    assert isinstance(lab, PostgresLab)
    return Site("postgres", url, lab.dsn, FLOOR, "on", partitions, lanes)


def is_worn(lab: Lab, settings: Settings) -> bool:
    """Return whether too few items are ready, so that the frontiers must be loaded again."""
    ready = [asyncio.run(_count_ready(lab.url(name))) for name in (SWATH, FLOOR)]
    return min(ready) < LEFT_SHARE * settings.moves_items


async def _count_ready(url: str) -> int:
    async with swath.open(url, create=False) as frontier:
        return (await frontier.status()).ready


def drop(lab: Lab) -> None:
    for name in (SWATH, FLOOR):
        lab.drop(name)


# in the child process


def make_web(site: Site, side: str) -> Web:
    return Web(lanes=site.lanes, name=f"{side}{os.getpid()}", seed=os.getpid())


def open_floor(site: Site) -> Floor:
    web = make_web(site, "floor")
    if site.store == "sqlite":
        return SqliteFloor(site.floor_at, synchronous=site.synchronous, web=web)
    first = os.getpid() % site.partitions
    return PostgresFloor(site.floor_at, site.floor_name, partitions=site.partitions, first=first, web=web)
