"""The SQLite store around its moves: group commit, the caller's transaction, waiting, closing, forking."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

import swath
from swath.backends.sqlite import SqliteStore, migrate, writer
from swath.backends.sqlite import claim as claiming
from swath.backends.sqlite.add import add
from swath.backends.sqlite.connection import connect
from swath.backends.sqlite.state import Session
from swath.backends.sqlite.wal_limiter import WalLimiter
from swath.core.clock import SECOND, ManualClock
from swath.core.errors import (
    InvalidOutcome,
    LeaseLost,
    NotAFrontier,
    OutputConflict,
    StoreUnavailable,
    SwathError,
    UsageError,
    WrongTransaction,
)
from swath.core.lane import hash_key, locate_lane
from swath.core.store import (
    ClaimRef,
    ClaimReply,
    ClaimRequest,
    EncodedItem,
    Move,
    MoveKind,
    OutputMove,
    Settings,
    Settlement,
)
from tests.forking import passes_in_a_child

TOKEN = 7


def new(key: str, lane: str = "lane") -> EncodedItem:
    partition, lane_hash = locate_lane(lane, 1)
    return EncodedItem(partition, hash_key(key) + lane_hash, lane, 3, key, None, None, 1)


def done(reply: ClaimReply, *, discovered: Sequence[EncodedItem] = ()) -> Settlement:
    return Settlement(0, 1, [Move(item.position, MoveKind.DONE) for item in reply.items], discovered)


def request(limit: int = 10, lease: int = 60 * SECOND) -> ClaimRequest:
    return ClaimRequest(limit, lease, "worker", TOKEN, [0])


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "work.db")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(path: str, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path, settings=Settings(1), clock=clock)
    yield store
    await store.close()


@pytest.fixture
async def claimed(store: SqliteStore) -> ClaimReply:
    """A claim on two items."""
    await store.add([new("a"), new("b")])
    return await store.claim(request())


async def test_positions_that_are_used_up_are_told(path: str) -> None:
    await (await SqliteStore.open(path)).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE swath_partition_state SET next_position = ?", (2**63 - 3,))
    store = await SqliteStore.open(path)
    assert await store.add([new("last")]) == 1
    with pytest.raises(SwathError, match="no room for 2 more positions"):
        await store.add([new("too wide")._replace(span=2)])
    reply = await store.claim(request())
    assert [(item.key, item.position) for item in reply.items] == [("last", 2**63 - 3)]
    await store.close()


class Gate:
    """Holds the writer's thread until it is opened, so that jobs pile up behind it."""

    def __init__(self, store: SqliteStore) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self.task: asyncio.Future[None] = asyncio.ensure_future(store._writer.submit(self._hold))

    def _hold(self, session: object) -> None:
        self.entered.set()
        assert self.open.wait(30)

    async def __aenter__(self) -> "Gate":
        await asyncio.to_thread(self.entered.wait)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.open.set()
        await self.task


# group commit


async def test_jobs_that_wait_share_a_commit(store: SqliteStore, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swath.backends.sqlite.writer.GROUP_SECONDS", 30.0)
    watcher = sqlite3.connect(path)
    async with Gate(store) as gate:
        before = watcher.execute("PRAGMA data_version").fetchone()
        waiting = [asyncio.ensure_future(store.add([new(f"k{i}")])) for i in range(20)]
        await asyncio.sleep(0)
        assert watcher.execute("PRAGMA data_version").fetchone() == before
        seen: list[bool] = []
        store._writer._on_commit = lambda session, woken: seen.append(woken)
        gate.open.set()
        assert sum(await asyncio.gather(*waiting)) == 20
    assert seen == [True], "one commit for all"
    watcher.close()


async def test_a_job_that_fails_rolls_back_alone(store: SqliteStore, claimed: ClaimReply) -> None:
    async with Gate(store) as gate:
        broken = asyncio.ensure_future(store._writer.submit(_add_and_fail))
        good = asyncio.ensure_future(store.add([new("good")]))
        lost = asyncio.ensure_future(store.settle(ClaimRef(claimed.fence, 99), done(claimed)))
        settled = asyncio.ensure_future(store.settle(ClaimRef(claimed.fence, TOKEN), done(claimed)))
        await asyncio.sleep(0)
        gate.open.set()
        with pytest.raises(ZeroDivisionError):
            await broken
        assert await good == 1
        with pytest.raises(LeaseLost):
            await lost
        assert (await settled).checkpoint == 2
    (status,) = (await store.status()).partitions
    assert (status.ready, status.done) == (1, 2)
    assert list((await store.status()).partitions) == list(await store.recount())
    assert await store.find(hash_key("bad"), None) == []


def _add_and_fail(session: Session) -> None:
    add(session, [new("bad")])
    raise ZeroDivisionError


async def test_the_first_job_of_a_group_fails_alone(store: SqliteStore) -> None:
    with pytest.raises(ZeroDivisionError):
        await store._writer.submit(_add_and_fail)
    assert await store.add([new("bad")]) == 1
    assert list((await store.status()).partitions) == list(await store.recount()), "its lane was forgotten with it"


async def test_a_lane_of_a_job_that_failed_is_forgotten(store: SqliteStore) -> None:
    async with Gate(store) as gate:
        before = asyncio.ensure_future(store.add([new("good", "lane of another")]))
        broken = asyncio.ensure_future(store._writer.submit(_add_and_fail))
        after = asyncio.ensure_future(store.add([new("bad")]))
        await asyncio.sleep(0)
        gate.open.set()
        with pytest.raises(ZeroDivisionError):
            await broken
        assert (await before, await after) == (1, 1)
    assert list((await store.status()).partitions) == list(await store.recount())
    assert len((await store.claim(request())).items) == 2


async def test_what_is_known_has_a_size(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """INV-9, and what was forgotten is read again."""
    monkeypatch.setattr("swath.backends.sqlite.state.LANES_KEPT", 20)
    monkeypatch.setattr("swath.backends.sqlite.state.HOLDS_KEPT", 3)
    claims = []
    for i in range(30):
        await store.add([new(f"k{i}", f"lane {i}"), new(f"l{i}", f"lane {i}")])
        claims.append(await store.claim(request(limit=2)))
    known = store._writer._session
    assert known is not None
    assert len(known.lanes[0]) == len(known.named[0]) <= 21
    assert len(known.held) <= 4
    for claim in claims:
        await store.settle(ClaimRef(claim.fence, TOKEN), done(claim))
    (status,) = await store.recount()
    assert (status.done, status.checkpoint) == (60, 60)
    assert [status] == list((await store.status()).partitions)


async def test_a_group_that_sqlite_rolls_back_has_not_happened(store: SqliteStore) -> None:
    """As it may do when the disk is full: whoever was in the group is told, and nothing is half done."""

    def run_out(session: Session) -> None:
        session.connection.execute("ROLLBACK")
        raise sqlite3.OperationalError("disk is full, all of it")

    async with Gate(store) as gate:
        before = asyncio.ensure_future(store.add([new("before")]))
        broken = asyncio.ensure_future(store._writer.submit(run_out))
        after = asyncio.ensure_future(store.add([new("after")]))
        await asyncio.sleep(0)
        gate.open.set()
        for failed in (before, broken):
            with pytest.raises(StoreUnavailable, match="all of it"):
                await failed
        assert await after == 1
        with pytest.raises(StoreUnavailable):
            await gate.task
        gate.task = asyncio.ensure_future(asyncio.sleep(0))
    assert await store.add([new("before")]) == 1


async def test_renewals_go_first(store: SqliteStore, claimed: ClaimReply) -> None:
    order: list[str] = []
    async with Gate(store) as gate:
        adding = asyncio.ensure_future(store.add([new("late")]))
        adding.add_done_callback(lambda _: order.append("add"))
        await asyncio.sleep(0)
        renewing = asyncio.ensure_future(store.renew(ClaimRef(claimed.fence, TOKEN), SECOND))
        renewing.add_done_callback(lambda _: order.append("renew"))
        await asyncio.sleep(0)
        gate.open.set()
        await asyncio.gather(adding, renewing)
    assert order == ["renew", "add"]


async def test_a_cancelled_caller_neither_stops_the_thread_nor_loses_a_commit(store: SqliteStore) -> None:
    async with Gate(store) as gate:
        waiting = asyncio.ensure_future(store.add([new("never begun")]))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        gate.open.set()
    assert await store.find(hash_key("never begun"), None) == []

    began, go_on = threading.Event(), threading.Event()

    def slowly(session: Session) -> None:
        began.set()
        assert go_on.wait(30)
        session.connection.execute("INSERT INTO swath_output VALUES ('x', 1)")

    running = asyncio.ensure_future(store._writer.submit(slowly))
    await asyncio.to_thread(began.wait)
    running.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await store.add([new("after")]) == 1
    assert await store.outputs() == {"x": 1}


async def test_a_claim_whose_caller_was_cancelled_is_found_under_its_token(
    store: SqliteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its items would wait until the lease ends, and count a lost worker that never had them."""
    await store.add([new("a"), new("b")])
    began, go_on = threading.Event(), threading.Event()

    def slowly(session: Session, request: ClaimRequest) -> ClaimReply:
        began.set()
        assert go_on.wait(30)
        return real(session, request)

    real = claiming.claim
    monkeypatch.setattr(claiming, "claim", slowly)
    waiting = asyncio.create_task(store.claim(request()))
    await asyncio.to_thread(began.wait)
    waiting.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    clock.advance(50)
    again = await store.claim(request())
    assert [item.key for item in again.items] == ["a", "b"]
    assert again.expires_at == clock.now() + 60 * SECOND
    await store.settle(ClaimRef(again.fence, TOKEN), done(again))
    assert (await store.claim(request())).items == []


async def test_reads_do_not_wait_for_the_writer(store: SqliteStore) -> None:
    await store.add([new("a")])
    async with Gate(store):
        (status,) = (await asyncio.wait_for(store.status(), 10)).partitions
        assert status.ready == 1


# the caller's transaction


async def test_settle_commits_with_the_callers_writes(store: SqliteStore, path: str, claimed: ClaimReply) -> None:
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    connection.text_factory = bytes
    connection.execute("CREATE TABLE mine (key TEXT)")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO mine VALUES ('a')")
    settlement = done(claimed, discovered=[new("c"), new("a")])
    reply = await store.settle(ClaimRef(claimed.fence, TOKEN), settlement, connection=connection)
    assert (reply.checkpoint, reply.discovered) == (2, 1)
    assert connection.row_factory is sqlite3.Row
    assert connection.text_factory is bytes
    (status,) = (await store.status()).partitions
    assert status.claimed == 2, "not yet committed"
    connection.commit()
    connection.close()
    (status,) = (await store.status()).partitions
    assert (status.done, status.ready) == (2, 1)
    assert list(await store.recount()) == [status]


async def test_settle_is_rolled_back_with_the_callers_writes(
    store: SqliteStore, path: str, claimed: ClaimReply
) -> None:
    connection = sqlite3.connect(path)
    connection.execute("BEGIN IMMEDIATE")
    await store.settle(ClaimRef(claimed.fence, TOKEN), done(claimed), connection=connection)
    connection.rollback()
    connection.close()
    assert (await store.status()).partitions[0].claimed == 2
    assert (await store.settle(ClaimRef(claimed.fence, TOKEN), done(claimed))).checkpoint == 2


class Autocommit(sqlite3.Connection):
    """What `sqlite3.connect(autocommit=True)` gives from Python 3.12 on: rollback() does nothing."""

    autocommit = True

    def rollback(self) -> None:
        pass


@pytest.mark.parametrize("factory", [sqlite3.Connection, Autocommit])
@pytest.mark.parametrize("case", ["lost", "invalid", "output"])
async def test_the_callers_writes_cannot_commit_without_the_settlement(
    case: str, factory: type[sqlite3.Connection], store: SqliteStore, path: str, clock: ManualClock, claimed: ClaimReply
) -> None:
    ref, settlement = ClaimRef(claimed.fence, TOKEN), done(claimed)
    expected: type[Exception]
    match case:
        case "lost":
            clock.advance(61)
            await store.claim(request())
            expected = LeaseLost
        case "invalid":
            settlement = settlement._replace(moves=[*settlement.moves, settlement.moves[0]])
            expected = InvalidOutcome
        case _:
            settlement = settlement._replace(outputs=[OutputMove("x", 5, 6)])
            expected = OutputConflict
    connection = sqlite3.connect(path, factory=factory)
    connection.execute("CREATE TABLE mine (key TEXT)")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO mine VALUES ('a')")
    with pytest.raises(expected, match="rolled back"):
        await store.settle(ref, settlement, connection=connection)
    assert not connection.in_transaction
    connection.commit()
    assert connection.execute("SELECT count(*) FROM mine").fetchone() == (0,)
    connection.close()


async def test_a_wrong_transaction_is_refused_and_left_alone(
    store: SqliteStore, path: str, tmp_path: Path, claimed: ClaimReply
) -> None:
    ref = ClaimRef(claimed.fence, TOKEN)
    connection = sqlite3.connect(path)
    with pytest.raises(WrongTransaction, match="BEGIN IMMEDIATE"):
        await store.settle(ref, done(claimed), connection=connection)
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE mine (key TEXT)")
    other.execute("BEGIN")
    other.execute("INSERT INTO mine VALUES ('a')")
    with pytest.raises(WrongTransaction, match=r"other\.db"):
        await store.settle(ref, done(claimed), connection=other)
    assert other.in_transaction
    memory = sqlite3.connect(":memory:")
    with pytest.raises(WrongTransaction, match="in memory"):
        await store.settle(ref, done(claimed), connection=memory)
    with pytest.raises(WrongTransaction, match=r"builtins\.str"):
        await store.settle(ref, done(claimed), connection="work.db")
    # A transaction that read before another connection wrote can no longer write.
    connection.execute("BEGIN")
    connection.execute("SELECT * FROM swath_frontier").fetchall()
    await store.add([new("meanwhile")])
    with pytest.raises(WrongTransaction, match="BEGIN IMMEDIATE"):
        await store.settle(ref, done(claimed), connection=connection)
    connection.rollback()
    # A transaction without the write lock, while another connection holds it.
    holder = sqlite3.connect(path)
    holder.execute("BEGIN IMMEDIATE")
    connection.execute("PRAGMA busy_timeout = 0")
    connection.execute("BEGIN")
    with pytest.raises(StoreUnavailable, match="BEGIN IMMEDIATE"):
        await store.settle(ref, done(claimed), connection=connection)
    for each in (holder, connection, other, memory):
        each.close()


# waiting


async def test_wait_returns_after_its_time(store: SqliteStore) -> None:
    start = time.monotonic()
    await store.wait(0.2)
    assert 0.19 <= time.monotonic() - start < 5
    await store.wait(0)


async def test_wait_wakes_for_this_process(store: SqliteStore) -> None:
    await store.claim(request())
    waiting = asyncio.ensure_future(store.wait(60))
    await asyncio.sleep(0.01)
    await store.add([new("a")])
    await asyncio.wait_for(waiting, 10)


async def test_wait_wakes_for_lanes_that_are_placed_again(store: SqliteStore) -> None:
    await store.add([new("a")])
    await store.claim(request())
    waiting = asyncio.ensure_future(store.wait(60))
    await asyncio.sleep(0.01)
    await store.requeue_lanes(0, [1])
    await asyncio.wait_for(waiting, 10)


async def test_wait_wakes_for_items_that_are_opened_again(store: SqliteStore) -> None:
    await store.add([new("a")])
    await store.claim(request())
    waiting = asyncio.ensure_future(store.wait(60))
    await asyncio.sleep(0.01)
    await store.reopen([(0, 0)])
    await asyncio.wait_for(waiting, 10)


async def test_wait_wakes_for_what_is_dropped(store: SqliteStore) -> None:
    """A run until everything is done may be done now."""
    await store.add([new("a")])
    await store.claim(request())
    waiting = asyncio.ensure_future(store.wait(60))
    await asyncio.sleep(0.01)
    await store.drop([(0, 0)], None)
    await asyncio.wait_for(waiting, 10)


async def test_wait_wakes_for_other_settings(store: SqliteStore) -> None:
    await store.claim(request())
    waiting = asyncio.ensure_future(store.wait(60))
    await asyncio.sleep(0.01)
    await store.change_settings(max_attempts=7)
    await asyncio.wait_for(waiting, 10)


async def test_wait_wakes_for_what_was_added_since_the_last_claim(store: SqliteStore) -> None:
    await store.claim(request())
    await store.add([new("a")])
    await asyncio.wait_for(store.wait(60), 10)
    await store.claim(request())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(store.wait(60), 0.2)


async def test_wait_wakes_for_others(store: SqliteStore, path: str) -> None:
    other = await SqliteStore.open(path)
    await store.claim(request())
    await other.add([new("before the wait")])
    await asyncio.wait_for(store.wait(60), 10)
    await store.claim(request())
    waiting = asyncio.ensure_future(store.wait(60))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await other.add([new("during the wait")])
    await asyncio.wait_for(waiting, 10)
    await other.close()


# settings, closing, forking


async def test_settings_of_others_are_seen_by_the_next_move(store: SqliteStore, path: str) -> None:
    other = await SqliteStore.open(path)
    await other.change_settings(min_interval=5, paused=True)
    assert other.settings.min_interval == 5
    reply = await store.claim(request())
    assert store.settings.min_interval == 5
    assert reply.signal == (True, 1)
    await other.close()


async def test_closing_finishes_what_was_asked_for(path: str) -> None:
    before = set(threading.enumerate())
    store = await SqliteStore.open(path)
    adding = [asyncio.ensure_future(store.add([new(f"k{i}")])) for i in range(10)]
    await asyncio.sleep(0)
    await store.close()
    assert sum(await asyncio.gather(*adding)) == 10
    await store.close()
    for call in (store.add([]), store.status(), store.claim(request()), store.wait(1)):
        with pytest.raises(UsageError, match="closed"):
            await call
    assert [file.name for file in Path(path).parent.glob("*-wal")] == [], "the last connection to close tidies up"
    assert not [thread for thread in set(threading.enumerate()) - before if "swath" in thread.name]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_store_that_came_through_a_fork_is_refused(store: SqliteStore) -> None:
    def in_the_child() -> None:
        with pytest.raises(UsageError, match=r"by a fork.*spawn"):
            store._check_usable()
        with pytest.raises(UsageError, match="by a fork"):
            asyncio.run(store.wait(0))

    assert passes_in_a_child(in_the_child)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_file_that_was_open_at_a_fork_is_not_opened_in_the_child(store: SqliteStore, path: str) -> None:
    """SQLite would believe that the child has the locks of its parent: whoever leaves last would take the log away from
    under it, with what it has confirmed."""

    async def opened() -> None:
        with pytest.raises(UsageError, match=r"open in process \d+ when this one was forked .*spawn"):
            await SqliteStore.open(path)
        with pytest.raises(UsageError, match="forked"):
            await migrate(path)
        await (await SqliteStore.open(f"{path}.other")).close()

    assert passes_in_a_child(lambda: asyncio.run(opened()))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_file_that_was_closed_before_a_fork_is_opened_in_the_child(path: str) -> None:
    async def opened() -> None:
        await (await SqliteStore.open(path)).close()

    asyncio.run(opened())
    assert passes_in_a_child(lambda: asyncio.run(opened()))


async def test_opening_that_is_cancelled_leaves_nothing_open(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await (await SqliteStore.open(path)).close()
    began, made = threading.Event(), SimpleQueue[SqliteStore]()
    make = SqliteStore._open

    def watched(*arguments: Any) -> SqliteStore:
        began.set()
        store = make(*arguments)
        made.put(store)
        return store

    monkeypatch.setattr(SqliteStore, "_open", watched)
    opening = asyncio.ensure_future(SqliteStore.open(path))
    await asyncio.to_thread(began.wait)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    thread = (await asyncio.to_thread(made.get))._writer._thread
    await asyncio.to_thread(thread.join, 10)
    assert not thread.is_alive()
    assert [file.name for file in Path(path).parent.glob("*-wal")] == [], "the last connection to close tidies up"


async def test_old_claims_are_pruned(store: SqliteStore, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swath.backends.sqlite.claim.CLAIMS_KEPT", 50)
    monkeypatch.setattr("swath.backends.sqlite.claim.PRUNE_EVERY", 20)
    await store.add([new(f"k{i}", f"lane {i}") for i in range(200)])
    kept = await store.claim(request(limit=1))
    for number in range(150):
        reply = await store.claim(request(limit=1))
        assert reply.fence == number + 2
        await store.settle(ClaimRef(reply.fence, TOKEN), done(reply))
    with sqlite3.connect(path) as connection:
        (count,) = connection.execute("SELECT count(*) FROM swath_claim").fetchone()
    connection.close()
    assert 50 <= count <= 100
    await store.settle(ClaimRef(kept.fence, TOKEN), done(kept))


async def test_a_turn_ends_after_a_settlement_and_not_before(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a claim has read is in memory for the settlement that follows it, unless others write in between."""
    monkeypatch.setattr(writer, "ROUND_SECONDS", 0.0)
    monkeypatch.setattr(writer, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(writer, "SETTLE_SECONDS", 10.0)
    monkeypatch.setattr(writer, "FOLLOW_SECONDS", (10.0, 10.0))
    turn, taken = store._writer._queue, []
    for key in ("a", "b"):
        await store.add([new(key)])
    taken.append(turn.is_held)
    claim = await store.claim(request())
    taken.append(turn.is_held)
    await store.settle(ClaimRef(claim.fence, TOKEN), done(claim))
    taken.append(turn.is_held)
    assert taken == [False, True, False]


async def test_whoever_claims_without_end_gives_its_turn_away(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FOLLOW_SECONDS", (10.0, 10.0))
    turn = store._writer._queue
    began, given = time.monotonic(), False
    while not given and time.monotonic() < began + 10:
        await store.claim(request())
        given = not turn.is_held and time.monotonic() > began + writer.ROUND_SECONDS
    assert given


@pytest.mark.parametrize("longest", [60.0, 0.5])
async def test_what_follows_a_long_job_may_take_longer_to_come(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, longest: float
) -> None:
    """Whoever claims a large batch is busy with it for a while before it settles; but there is an end to it."""
    monkeypatch.setattr(writer, "ROUND_SECONDS", 60.0)
    monkeypatch.setattr(writer, "FOLLOW_SHARE", 50.0)
    monkeypatch.setattr(writer, "FOLLOW_SECONDS", (0.5, longest))
    turn, taken = store._writer._queue, []
    await store.add([new("a")])
    await store._writer.submit(lambda _: time.sleep(0.2))
    await asyncio.sleep(2.0)
    taken.append(turn.is_held)
    await store.add([new("b")])
    await asyncio.sleep(2.0)
    taken.append(turn.is_held)
    assert taken == [longest > 2.0, False]


async def test_a_file_that_is_gone_is_not_written_to(store: SqliteStore, path: str) -> None:
    """Nothing that is confirmed would be found again."""
    await store.add([new("a")])
    os.rename(path, f"{path}.away")
    with pytest.raises(NotAFrontier, match="removed or replaced while this process had it open"):
        await store.add([new("b")])
    with pytest.raises(NotAFrontier):  # nor is anything refused by what it holds
        await store.renew(ClaimRef(1, 1), 60_000_000)
    os.rename(f"{path}.away", path)
    assert await store.add([new("b")]) == 1


def lose_log(path: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(path + suffix).read_bytes()
    leave = f"import sqlite3; c = sqlite3.connect({path!r}); c.execute('SELECT * FROM swath_frontier'); c.close()"
    subprocess.run([sys.executable, "-c", leave], check=True)
    assert not os.path.exists(f"{path}-wal")


async def test_a_log_that_went_with_its_locks_is_not_written_to(store: SqliteStore, path: str) -> None:
    """Whoever closes the file by hand drops the locks of its process: the next to leave takes itself for the last, and
    removes the log."""
    await store.add([new("a")])
    await asyncio.to_thread(lose_log, path)
    with pytest.raises(NotAFrontier, match="-wal or -shm was removed"):
        await store.add([new("b")])


async def test_what_goes_into_a_log_that_is_gone_is_not_confirmed(store: SqliteStore, path: str) -> None:
    """INV-4: it may go at any time, also while something is committed."""
    await store.add([new("a")])

    def lose_log_before_commit(statement: str) -> None:
        if statement == "COMMIT":
            lose_log(path)

    store._writer._connection.set_trace_callback(lose_log_before_commit)
    with pytest.raises(NotAFrontier, match="-wal or -shm was removed"):
        await store.add([new("b")])


ELSEWHERE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.executescript(sys.argv[2])
print(connection.execute("PRAGMA integrity_check").fetchone()[0])
connection.close()
"""


def run_elsewhere(path: str, script: str) -> str:
    """Whether the file is whole for another process, which runs a script on it first."""
    run = subprocess.run([sys.executable, "-c", ELSEWHERE, path, script], capture_output=True, text=True, check=False)
    return run.stdout.strip() or run.stderr


async def test_a_log_that_went_is_not_copied_over_what_others_wrote_since(path: str) -> None:
    store = await SqliteStore.open(path)

    def add_and_lose_log(session: Session) -> None:
        add(session, [new("a")])
        lose_log(path)

    with pytest.raises(NotAFrontier, match="-wal or -shm was removed"):
        await store._writer.submit(add_and_lose_log)
    script = "CREATE TABLE mine (a); CREATE INDEX mine_a ON mine (a); INSERT INTO mine VALUES (1)"
    assert await asyncio.to_thread(run_elsewhere, path, script) == "ok"
    await store.close()
    assert await asyncio.to_thread(run_elsewhere, path, "INSERT INTO mine VALUES (2)") == "ok"


async def test_a_file_that_is_gone_answers_no_questions(store: SqliteStore, path: str) -> None:
    """Whoever only looks would be told for ever what was true once."""
    await store.add([new("a")])
    os.rename(path, f"{path}.away")
    await (await SqliteStore.open(path)).close()
    with pytest.raises(NotAFrontier, match="removed or replaced while this process had it open"):
        await store.status()


async def test_without_the_file_that_its_locks_are_on_nothing_is_written(store: SqliteStore, path: str) -> None:
    """The next process to come would make one of its own, and claim what this one holds."""
    await store.add([new("a")])
    os.unlink(f"{path}-shm")
    with pytest.raises(NotAFrontier, match="-wal or -shm was removed"):
        await store.claim(request())


async def test_a_caller_has_its_reply_before_the_log_is_shortened(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = threading.Event()
    postponed: list[bool] = []

    def is_due(limiter: WalLimiter, *, postpone: bool) -> bool:
        postponed.append(postpone)
        return True

    def shorten(limiter: WalLimiter, connection: sqlite3.Connection) -> None:
        assert finish.wait(60)

    async with swath.open(f"sqlite:///{path}") as frontier:
        await frontier.add(["a"])
        monkeypatch.setattr(WalLimiter, "is_due", is_due)
        monkeypatch.setattr(WalLimiter, "shorten", shorten)
        try:
            async with asyncio.timeout(30):
                claim = await frontier.claim()
        finally:
            finish.set()
        assert claim is not None
        await claim.settle([item.done() for item in claim.items])
        await frontier.add(["b"])
    assert postponed == [False, True, True], "the caller of a claim has work to do"


async def test_a_log_that_cannot_be_shortened_does_not_end_the_writer(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[int] = []

    def fail(size: int) -> int:
        failed.append(size)
        raise FileNotFoundError(path)

    monkeypatch.setattr("swath.backends.sqlite.wal_limiter.WAL_BYTES", 100_000)
    async with swath.open(f"sqlite:///{path}") as frontier, asyncio.timeout(60):
        monkeypatch.setattr("swath.backends.sqlite.wal_limiter.get_wal_limit", fail)
        for number in range(100):
            await frontier.add([str(number)])
        assert (await frontier.status()).ready == 100
    assert failed


def test_the_connection_for_reads_writes_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "work.db")
    with closing(connect(path)) as writer:
        writer.execute("CREATE TABLE t (n INTEGER)")
    with closing(connect(path, read_only=True)) as reader:
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.execute("INSERT INTO t VALUES (1)")
        assert reader.execute("SELECT count(*) FROM t").fetchone() == (0,)


async def test_a_store_reads_through_such_a_connection(tmp_path: Path) -> None:
    store = await SqliteStore.open(str(tmp_path / "work.db"))
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        store._reading.execute("DELETE FROM swath_item")
    await store.close()
