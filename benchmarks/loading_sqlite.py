"""Load a frontier in a SQLite file, in the order of its tables and without a journal until it is complete."""

import asyncio
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from hashlib import blake2b

from benchmarks.loading import A_DAY, LEVEL, RANK, Plan, check, create, make_plan
from benchmarks.settings import ITEMS_PER_LANE
from benchmarks.work import page

INSERT_LANE = (
    "INSERT INTO swath_lane (partition, number, name, waiting, head, low, level, ready_at) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
INSERT_ITEM = (
    "INSERT INTO swath_item (partition, lane, rank, place, position, hash, key, span, attempts) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, 1, 0)"
)
INSERT_SEEN = "INSERT INTO swath_seen SELECT partition, hash, position FROM swath_item ORDER BY partition, hash"
SAVE_PARTITION = """
UPDATE swath_partition_state SET next_position = ?, next_place = ?, ready = ?, lanes = ? WHERE partition = ?
"""
POSITION_INDEX = "SELECT sql FROM sqlite_master WHERE name = 'swath_item_position'"


def load(path: str, url: str, *, items: int, partitions: int) -> int:
    """Create the frontier and return its number of items."""
    asyncio.run(create(url, partitions=partitions))
    planned = make_plan(items, partitions)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -524288", "temp_store = MEMORY"):
            connection.execute(f"PRAGMA {pragma}")
        (position_index,) = connection.execute(POSITION_INDEX).fetchone()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DROP INDEX swath_item_position")
        connection.executemany(INSERT_LANE, _lanes(planned))
        connection.executemany(INSERT_ITEM, _items(planned))
        connection.execute(INSERT_SEEN)
        connection.execute(position_index)
        connection.executemany(SAVE_PARTITION, _states(planned))
        connection.execute("COMMIT")
    _sync(path)
    asyncio.run(check(url, planned.items))
    return planned.items


def block(path: str, *, lanes_of_ten: int) -> None:
    """Block this number of every ten lanes for a day, and make the others ready."""
    now = time.time_ns() // 1_000
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            """
            UPDATE swath_lane SET
                ready_at = CASE WHEN number % 10 < :blocked THEN :tomorrow ELSE :now END,
                blocked_until = CASE WHEN number % 10 < :blocked THEN :tomorrow ELSE 0 END
            WHERE (blocked_until > 0) <> (number % 10 < :blocked)
            """,
            {"blocked": lanes_of_ten, "now": now, "tomorrow": now + A_DAY},
        )
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _lanes(planned: Plan) -> Iterator[tuple[object, ...]]:
    for partition, lanes in enumerate(planned.partitions):
        for lane in lanes:
            yield partition, lane.number, lane.name, ITEMS_PER_LANE, LEVEL, LEVEL, LEVEL, lane.ready_at


def _items(planned: Plan) -> Iterator[tuple[object, ...]]:
    """Yield the items in the order of the table: by lane, then by position."""
    for partition, lanes in enumerate(planned.partitions):
        for lane in lanes:
            for number in range(ITEMS_PER_LANE):
                position = number * len(lanes) + lane.number
                key = page(lane.name, number)
                digest = blake2b(key.encode(), digest_size=16).digest() + lane.hash
                yield partition, lane.number, RANK, position, position, digest, key


def _states(planned: Plan) -> Iterator[tuple[int, ...]]:
    for partition, lanes in enumerate(planned.partitions):
        items = len(lanes) * ITEMS_PER_LANE
        yield items + 1, items + 1, items, len(lanes), partition


def _sync(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
