"""What is on the disk when a call returns: everything but leases, which end with the machine."""

import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from swath.backends.sqlite import SqliteStore
from swath.core.clock import SECOND, ManualClock
from swath.core.errors import LeaseLost
from swath.core.lane import hash_key, locate_lane
from swath.core.store import (
    ClaimRef,
    ClaimReply,
    ClaimRequest,
    EncodedItem,
    LaneChange,
    Move,
    MoveKind,
    Settings,
    Settlement,
)

SYNCED, NOT_SYNCED = "synced", "not synced"
TOKEN = 7


class Disk:
    """A store whose commits are watched, and a copy of its files as they were after the last one that was synced: the
    least that a power cut leaves."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = ManualClock()
        self.commits: list[str] = []

    @asynccontextmanager
    async def open(self, **settings: int) -> AsyncIterator[SqliteStore]:
        store = await SqliteStore.open(str(self.path), settings=Settings(1, **settings), clock=self.clock)
        connection = store._writer._connection
        connection.set_trace_callback(self._run)
        self._level = "FULL"
        yield store
        connection.set_trace_callback(None)
        await store.close()

    def _run(self, statement: str) -> None:
        if statement.startswith("PRAGMA synchronous = "):
            self._level = statement.split()[-1]
        elif statement == "COMMIT":
            self.commits.append(SYNCED if self._level == "FULL" else NOT_SYNCED)

    def taken(self) -> list[str]:
        commits, self.commits = self.commits, []
        return commits

    def save(self, copy: Path) -> Path:
        for end in ("", "-wal"):
            shutil.copy(f"{self.path}{end}", f"{copy}{end}")
        return copy


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "work.db")


def new(key: str, lane: str = "lane") -> EncodedItem:
    partition, lane_hash = locate_lane(lane, 1)
    return EncodedItem(partition, hash_key(key) + lane_hash, lane, 3, key, None, None, 1)


def request(lease: int = 60 * SECOND, token: int = TOKEN) -> ClaimRequest:
    return ClaimRequest(10, lease, "worker", token, [0])


def done(reply: ClaimReply) -> Settlement:
    return Settlement(0, 1, [Move(item.position, MoveKind.DONE) for item in reply.items])


async def test_leases_are_not_synced_and_everything_else_is(disk: Disk) -> None:
    async with disk.open() as store:
        await store.add([new("a"), new("b")])
        assert disk.taken() == [SYNCED]
        claim = await store.claim(request())
        assert (len(claim.items), disk.taken()) == (2, [NOT_SYNCED])
        await store.renew(ClaimRef(claim.fence, TOKEN), 60 * SECOND)
        assert disk.taken() == [NOT_SYNCED]
        await store.settle(ClaimRef(claim.fence, TOKEN), done(claim))
        assert disk.taken() == [SYNCED]


async def test_the_start_of_a_paced_lane_is_synced(disk: Disk) -> None:
    """INV-3: the next one must not come too soon, also where the power was cut in between."""
    async with disk.open(min_interval=70 * SECOND, concurrency=1) as store:
        await store.add([new("a")])
        disk.taken()
        assert len((await store.claim(request())).items) == 1
        assert disk.taken()[-1] == SYNCED


async def test_the_start_of_a_lane_with_a_pace_of_its_own_is_synced(disk: Disk) -> None:
    async with disk.open() as store:
        await store.add([new("a", "slow"), new("b", "fast")])
        await store.change_lane(0, "slow", LaneChange(min_interval=70 * SECOND, concurrency=1))
        disk.taken()
        claim = await store.claim(request())
        assert ([item.key for item in claim.items], disk.taken()) == (["b", "a"], [SYNCED])
        assert claim.fence == 1


async def test_others_may_write_before_a_start_is_synced(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim that is run again sees what was written since it was run in vain."""
    monkeypatch.setattr("swath.backends.sqlite.connection.BUSY_SECONDS", 1.0)
    async with disk.open(min_interval=70 * SECOND, concurrency=1) as store:
        await store.add([new("a", "one"), new("b", "two")])
        others = sqlite3.connect(disk.path, isolation_level=None, check_same_thread=False)
        written: list[str] = []

        def write(statement: str) -> None:
            if statement == "PRAGMA synchronous = FULL":
                written.append(statement)
                others.execute("INSERT INTO swath_fact VALUES ('a', 'b')")

        store._writer._connection.set_trace_callback(write)
        assert len((await store.claim(request())).items) == 2
        assert len(written) == 1
        others.close()


async def test_what_is_taken_back_is_synced(disk: Disk) -> None:
    """INV-6: it may be dead, and the checkpoint with it further on."""
    async with disk.open(max_attempts=1) as store:
        await store.add([new("a")])
        await store.claim(request(lease=10 * SECOND))
        disk.clock.advance(20)
        disk.taken()
        reply = await store.claim(request(token=TOKEN + 1))
        assert (reply.recovered, reply.died, disk.taken()) == (1, 1, [SYNCED])
        assert (await store.status()).partitions[0].checkpoint == 1


async def test_normal_stays_normal_and_runs_nothing_twice(disk: Disk) -> None:
    settings = Settings(1, min_interval=70 * SECOND, concurrency=1)
    store = await SqliteStore.open(str(disk.path), settings=settings, synchronous="normal")
    statements: list[str] = []
    try:
        await store.add([new("a")])
        store._writer._connection.set_trace_callback(statements.append)
        assert len((await store.claim(request())).items) == 1
        await store.add([new("b")])
        store._writer._connection.set_trace_callback(None)
        assert store._writer._connection.execute("PRAGMA synchronous").fetchone() == (1,)
    finally:
        await store.close()
    assert "ROLLBACK" not in statements


async def test_a_power_cut_takes_back_a_claim_as_a_whole(disk: Disk, tmp_path: Path) -> None:
    async with disk.open() as store:
        await store.add([new("a"), new("b", "other")])
        copy = disk.save(tmp_path / "after.db")
        claim = await store.claim(request())
        assert disk.taken()[-1] == NOT_SYNCED
    store = await SqliteStore.open(str(copy), clock=disk.clock)
    try:
        status = await store.status()
        assert (status.partitions[0].ready, status.partitions[0].claimed) == (2, 0)
        counted = [part._replace(next_ready_at=None) for part in await store.recount()]
        assert [part._replace(next_ready_at=None) for part in status.partitions] == counted
        again = await store.claim(request(token=TOKEN + 1))
        assert [item.key for item in again.items] == [item.key for item in claim.items]
        assert again.fence == claim.fence  # it is not known any more: the token tells them apart
        with pytest.raises(LeaseLost):
            await store.settle(ClaimRef(claim.fence, TOKEN), done(claim))
        await store.settle(ClaimRef(again.fence, TOKEN + 1), done(again))
    finally:
        await store.close()


async def test_a_settlement_takes_its_claim_to_the_disk(disk: Disk, tmp_path: Path) -> None:
    async with disk.open() as store:
        await store.add([new("a"), new("b", "other")])
        claim = await store.claim(request())
        half = Settlement(0, 1, [Move(claim.items[0].position, MoveKind.DONE)])
        await store.settle(ClaimRef(claim.fence, TOKEN), half)
        assert disk.taken() == [SYNCED, NOT_SYNCED, SYNCED]
        copy = disk.save(tmp_path / "after.db")
    store = await SqliteStore.open(str(copy), clock=disk.clock)
    try:
        part = (await store.status()).partitions[0]
        assert (part.ready, part.claimed, part.done) == (0, 1, 1)
        assert (await store.claim(request(token=TOKEN + 1))).items == []
    finally:
        await store.close()
