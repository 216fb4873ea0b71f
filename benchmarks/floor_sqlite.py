"""The floor on SQLite: the standard library's driver, one transaction for a claim and one for a settlement."""

import asyncio
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.floor import LEASE, Arrival, Counted, Held, hash_links
from benchmarks.loading import LEVEL, RANK
from benchmarks.work import Link, Web
from swath.backends.sqlite.connection import CACHE_KIB, STATEMENTS

PARTITION = 0  # a file has one partition
BUSY_SECONDS = 60.0

READY_LANES = (
    "SELECT number, name FROM swath_lane WHERE partition = 0 AND level = ? AND ready_at <= ? "
    "ORDER BY ready_at, number LIMIT ?"
)
HEAD = (
    "SELECT place, position, hash, key, payload, span, attempts FROM swath_item "
    "WHERE partition = 0 AND lane = ? AND rank = ? ORDER BY place LIMIT 1"
)
DELETE_ITEM = "DELETE FROM swath_item WHERE partition = 0 AND lane = ? AND rank = ? AND place = ?"
INSERT_CLAIMED = (
    "INSERT INTO swath_claimed (partition, fence, position, lane, priority, hash, key, payload, span, attempts) "
    "VALUES (0, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
START_LANE = (
    "UPDATE swath_lane SET waiting = waiting - 1, in_flight = in_flight + 1, last_at = ?, level = NULL "
    "WHERE partition = 0 AND number = ?"
)
INSERT_DONE = (
    "INSERT INTO swath_done (partition, position, lane, priority, hash, key, payload, span, settled_at) "
    "VALUES (0, ?, ?, ?, ?, ?, ?, ?, ?)"
)
DELETE_CLAIMED = "DELETE FROM swath_claimed WHERE partition = 0 AND fence = ?"
# The floor has one priority, so the head does not change while items wait.
SETTLE_LANE = (
    "UPDATE swath_lane SET in_flight = in_flight - 1, ready_at = ?, head = CASE WHEN waiting > 0 THEN ? END, "
    "level = CASE WHEN waiting > 0 THEN ? END WHERE partition = 0 AND number = ?"
)
IS_SEEN = "SELECT 1 FROM swath_seen WHERE partition = 0 AND hash = ?"
INSERT_SEEN = "INSERT INTO swath_seen (partition, hash, position) VALUES (0, ?, ?)"
LANE_NUMBER = "SELECT number FROM swath_lane WHERE partition = 0 AND name = ?"
INSERT_ITEM = (
    "INSERT INTO swath_item (partition, lane, rank, place, position, hash, key, span, attempts) "
    "VALUES (0, ?, ?, ?, ?, ?, ?, 1, 0)"
)
GROW_LANE = (
    "UPDATE swath_lane SET waiting = waiting + ?, head = ?, level = CASE WHEN in_flight = 0 THEN ? END, "
    "ready_at = CASE WHEN level IS NULL THEN ? ELSE ready_at END WHERE partition = 0 AND number = ?"
)


WAL_PAGES = 32_000  # 128 MB, more than swath allows: the floor waits less often for a checkpoint
Taken = list[tuple[int, str, tuple[Any, ...]]]  # for each item: the number and name of its lane, and its row


class SqliteFloor:
    def __init__(self, path: str, *, synchronous: str, web: Web) -> None:
        self._web = web
        self._thread = ThreadPoolExecutor(1)
        self._db = sqlite3.connect(
            path,
            isolation_level=None,
            timeout=BUSY_SECONDS,
            cached_statements=STATEMENTS,
            check_same_thread=False,  # one thread uses it at a time
        )
        for pragma in (
            "journal_mode = WAL",
            f"synchronous = {synchronous}",
            f"cache_size = -{CACHE_KIB}",
            f"wal_autocheckpoint = {WAL_PAGES}",
            f"journal_size_limit = {WAL_PAGES * 4096}",
            "temp_store = MEMORY",
            "secure_delete = OFF",
        ):
            self._db.execute(f"PRAGMA {pragma}")

    def cycle(self, batch: int, *, links: bool) -> Counted:
        fence, taken = self._claim(batch)
        found = self._make_links(taken, links=links)
        self._settle(fence, taken, found)
        return Counted(len(taken), len(found))

    async def cycle_in_loop(self, batch: int, *, links: bool) -> Counted:
        """Do the same in a thread, because SQLite would block the loop."""
        held = await self.claim_in_loop(batch)
        found = self._make_links(held.claim[1], links=links)
        await self.settle_in_loop(held, found)
        return Counted(held.items, len(found))

    async def claim_in_loop(self, batch: int) -> Held:
        fence, taken = await asyncio.get_running_loop().run_in_executor(self._thread, self._claim, batch)
        return Held(len(taken), (fence, taken))

    async def settle_in_loop(self, held: Held, links: Sequence[Link] = ()) -> None:
        fence, taken = held.claim
        await asyncio.get_running_loop().run_in_executor(self._thread, self._settle, fence, taken, links)

    async def close(self) -> None:
        self._thread.shutdown()
        self._db.close()

    def _make_links(self, taken: Taken, *, links: bool) -> list[Link]:
        return [link for _, name, _ in taken for link in self._web.links(name)] if links else []

    def _claim(self, batch: int) -> tuple[int, Taken]:
        db, now = self._db, time.time_ns() // 1_000
        db.execute("BEGIN IMMEDIATE")
        db.execute("SELECT * FROM swath_partition_state WHERE partition = 0").fetchone()
        (fence,) = db.execute("SELECT coalesce(max(fence), 0) + 1 FROM swath_claim").fetchone()
        taken = []
        for number, name in db.execute(READY_LANES, (LEVEL, now, batch)).fetchall():
            taken.append((number, name, db.execute(HEAD, (number, RANK)).fetchone()))
        db.executemany(
            INSERT_CLAIMED,
            [(fence, row[1], number, LEVEL, row[2], row[3], row[4], row[5], row[6]) for number, _, row in taken],
        )
        db.executemany(DELETE_ITEM, [(number, RANK, row[0]) for number, _, row in taken])
        db.executemany(START_LANE, [(now, number) for number, _, _ in taken])
        db.execute(
            "UPDATE swath_partition_state SET time = ?, ready = ready - ?, claimed = claimed + ?, "
            "claims_made = claims_made + 1 WHERE partition = 0",
            (now, len(taken), len(taken)),
        )
        if taken:
            db.execute(
                "INSERT INTO swath_claim (fence, token, worker, expires_at) VALUES (?, ?, 'floor', ?)",
                (fence, secrets.randbits(63), now + LEASE),
            )
            db.execute(
                "INSERT INTO swath_hold (fence, partition, expires_at, held) VALUES (?, 0, ?, ?)",
                (fence, now + LEASE, len(taken)),
            )
        db.execute("COMMIT")
        return fence, taken

    def _settle(self, fence: int, taken: Taken, links: Sequence[Link]) -> None:
        if not taken:
            return
        found = hash_links(links, 1)
        db, now = self._db, time.time_ns() // 1_000
        db.execute("BEGIN IMMEDIATE")
        db.execute("SELECT token, lost, number FROM swath_claim WHERE fence = ?", (fence,)).fetchone()
        next_position, next_place = db.execute(
            "SELECT next_position, next_place FROM swath_partition_state WHERE partition = 0"
        ).fetchone()
        db.executemany(
            INSERT_DONE, [(row[1], number, LEVEL, row[2], row[3], row[4], row[5], now) for number, _, row in taken]
        )
        db.execute(DELETE_CLAIMED, (fence,))
        db.executemany(SETTLE_LANE, [(now, LEVEL, LEVEL, number) for number, _, _ in taken])
        fresh = [(one, self._lane_of(one)) for one in found if db.execute(IS_SEEN, (one.hash,)).fetchone() is None]
        if fresh:
            db.executemany(INSERT_SEEN, sorted((one.hash, next_position + nth) for nth, (one, _) in enumerate(fresh)))
            db.executemany(
                INSERT_ITEM,
                sorted(
                    (number, RANK, next_place + nth, next_position + nth, one.hash, one.key)
                    for nth, (one, number) in enumerate(fresh)
                ),
            )
            more = Counter(number for _, number in fresh)
            db.executemany(GROW_LANE, [(count, LEVEL, LEVEL, now, number) for number, count in more.items()])
        db.execute("UPDATE swath_claim SET number = 1 WHERE fence = ?", (fence,))
        db.execute("DELETE FROM swath_hold WHERE fence = ? AND partition = 0", (fence,))
        db.execute(
            "UPDATE swath_partition_state "
            "SET time = ?, next_position = next_position + ?, next_place = next_place + ?, ready = ready + ?, "
            "claimed = claimed - ?, done = done + ? WHERE partition = 0",
            (now, len(fresh), len(fresh), len(fresh), len(taken), len(taken)),
        )
        db.execute("COMMIT")

    def _lane_of(self, found: Arrival) -> int:
        number: int = self._db.execute(LANE_NUMBER, (found.lane,)).fetchone()[0]
        return number
