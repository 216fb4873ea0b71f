"""INV-8 by plan: no statement of a claim or a settlement scans a table or sorts, before the first ANALYZE and after."""

import re
import sqlite3
from collections.abc import Iterator
from typing import Self

import pytest

from swath.backends.sqlite.add import add
from swath.backends.sqlite.admin import change_lane
from swath.backends.sqlite.claim import claim
from swath.backends.sqlite.create import create_tables
from swath.backends.sqlite.location import SqliteLocation
from swath.backends.sqlite.migration import run_script
from swath.backends.sqlite.settle import settle
from swath.backends.sqlite.state import Session
from swath.core.clock import SECOND, ManualClock, SingleClock, StoreClock
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
    Signal,
)

SLOW = {
    "count_rows",
    "counters",
    "list_lanes",
    "list_pending",
    "list_audit",
    "outputs",
    "partition_states",
    "thin_milestones",
    "names",
    "migrations",
}
SMALL = {
    "swath_frontier",
    "swath_output",
    "swath_partition_state",
    "swath_migration",
}  # a few rows, whatever the frontier holds
TARGET = SqliteLocation.of("work.db")
SQL = TARGET.sql
LISTS = {"wanted", "json_each", "entry"}  # what the caller handed in


@pytest.fixture(scope="module", params=["fresh", "analyzed", "misled"])
def connection(request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    run_script(connection, TARGET.create_script())
    if request.param == "analyzed":
        _fill(connection)
        connection.execute("ANALYZE")
    elif request.param == "misled":
        connection.execute("ANALYZE")  # of empty tables: a planner that believes it would scan them
        _fill(connection)
    yield connection
    connection.close()


def _fill(connection: sqlite3.Connection) -> None:
    numbers = [{"n": n} for n in range(1, 2_001)]
    for statement in (
        "INSERT INTO swath_lane (partition, number, name, level, ready_at) VALUES (0, :n, 'lane ' || :n, 3, :n)",
        "INSERT INTO swath_item VALUES (0, :n % 100, 9, :n, :n, randomblob(20), 'k' || :n, NULL, 1, 0, 0, NULL, NULL)",
        "INSERT INTO swath_seen VALUES (0, randomblob(20), :n)",
        "INSERT INTO swath_claimed VALUES (0, :n / 10, :n, 1, 3, randomblob(20), 'k' || :n, NULL, 1, 0, 0, NULL, NULL)",
        "INSERT INTO swath_hold VALUES (:n, 0, :n, 10)",
        "INSERT INTO swath_claim VALUES (:n, 1, 'worker', :n, 0, 0, 0)",
        "INSERT INTO swath_delayed VALUES (0, :n, 1, 3, x'', '', NULL, 1, 0, 0, NULL, NULL, :n, :n % 2, NULL, NULL, 0)",
        "INSERT INTO swath_done VALUES (:n, 0, :n, 1, 3, x'00', 'key', NULL, 1, 0, NULL)",
        "INSERT INTO swath_dead VALUES (0, :n, 1, 3, x'00', 'key', NULL, 1, 1, 0, NULL, NULL)",
    ):
        connection.executemany(statement, numbers)


def plan(connection: sqlite3.Connection, statement: str) -> list[str]:
    names = re.findall(r":(\w+)", statement)
    values: object = dict.fromkeys(names, 1) if names else (1,) * statement.count("?")
    rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)  # type: ignore[arg-type]
    return [detail for *_, detail in rows]


def faults(details: list[str]) -> list[str]:
    """Steps that touch more than their share."""
    found = []
    for detail in details:
        scan = re.match(r"SCAN (\w+)", detail)
        if scan and scan[1] not in SMALL | LISTS and "CONSTANT ROW" not in detail and "subquery" not in detail:
            found.append(detail)
        if "TEMP B-TREE" in detail or "AUTOMATIC" in detail:
            found.append(detail)
    return found


@pytest.mark.parametrize("name", sorted(set(SQL) - SLOW))
def test_plan(name: str, connection: sqlite3.Connection) -> None:
    details = plan(connection, SQL[name])
    assert faults(details) == [], details


def test_ready_lanes_are_read_in_order_from_their_place(connection: sqlite3.Connection) -> None:
    (lanes,) = plan(connection, SQL["ready_lanes"])
    assert "swath_lane_ready (partition=? AND level=? AND " in lanes


def test_the_first_item_of_a_lane_is_looked_up_by_its_place(connection: sqlite3.Connection) -> None:
    _, items, *_ = plan(connection, SQL["claim_firsts"])
    assert "PRIMARY KEY (partition=? AND lane=? AND rank=? AND place=?)" in items


def test_done_items_are_read_in_order_from_their_place(connection: sqlite3.Connection) -> None:
    done, _ = plan(connection, SQL["list_done"])
    assert "INDEX swath_done_position ((partition,position)>(?,?) AND partition<?)" in done


def test_a_bad_plan_is_noticed(connection: sqlite3.Connection) -> None:
    assert faults(plan(connection, "SELECT * FROM swath_lane WHERE waiting = :n ORDER BY name"))
    assert faults(plan(connection, "SELECT position FROM swath_item WHERE partition = :p ORDER BY key"))


def test_the_checkpoint_does_not_walk_revisits(connection: sqlite3.Connection) -> None:
    assert any("INDEX swath_delayed_unsettled" in detail for detail in plan(connection, SQL["lowest_unsettled"]))


# The same by count: SQLite's own steps, which no machine makes slower.


class Counted:
    """A frontier whose moves are counted in steps of SQLite's virtual machine."""

    def __init__(self, settings: Settings) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        create_tables(self.connection, TARGET, settings, 0)
        self.clock = ManualClock()
        clock = StoreClock(SingleClock(self.clock), 0)
        self.session = Session(self.connection, SQL, clock, settings, Signal(False, 0))
        self.steps = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def _step(self) -> int:
        self.steps += 1
        return 0

    def add(self, count: int, lanes: int, *, first: int = 0, not_before: int | None = None, partition: int = 0) -> None:
        for start in range(first, first + count, 1_000):
            items = [
                EncodedItem(partition, f"{n:020}".encode(), f"lane {n % lanes}", 3, f"key {n}", None, not_before, 1)
                for n in range(start, min(start + 1_000, first + count))
            ]
            add(self.session, items)

    def turn(self, limit: int, *, delay: int | None = None) -> int:
        """Claim and settle once, and return how many steps that took."""
        self.steps = 0
        self.connection.set_progress_handler(self._step, 1)
        reply = claim(self.session, ClaimRequest(limit, SECOND, "worker", 1, [0]))
        moves = [Move(item.position, MoveKind.DONE, delay=delay) for item in reply.items]
        settle(self.session, ClaimRef(reply.fence, 1), Settlement(0, 1, moves))
        self.connection.set_progress_handler(None, 0)
        assert len(reply.items) == limit
        return self.steps


def test_a_claim_and_its_settlement_cost_the_same_at_any_size() -> None:
    def cost(items: int) -> int:
        with Counted(Settings(1, concurrency=1)) as frontier:
            frontier.add(items // 10, items // 100)
            frontier.add(items * 9 // 10, items // 20, first=items)
            for _ in range(items // 2_000):  # most lanes are busy: not ready
                claim(frontier.session, ClaimRequest(80, 1_000 * SECOND, "worker", 1, [0]))
            frontier.turn(20)
            return frontier.turn(20)

    small, large = cost(2_000), cost(40_000)
    assert large <= small * 1.05, (small, large)


def test_one_long_lane_costs_no_more_than_many() -> None:
    def cost(items: int) -> int:
        with Counted(Settings(1)) as frontier:
            frontier.add(items, 1)
            frontier.turn(50)
            return frontier.turn(50)

    small, large = cost(1_000), cost(30_000)
    assert large <= small * 1.05, (small, large)


def test_revisits_and_delayed_items_cost_a_settlement_nothing() -> None:
    def cost(items: int) -> int:
        with Counted(Settings(1)) as frontier:
            frontier.add(items, 10)
            while frontier.session.connection.execute("SELECT ready FROM swath_partition_state").fetchone()[0]:
                frontier.turn(100, delay=10_000 * SECOND)
            frontier.add(items, 10, first=10**6, not_before=10**18)
            frontier.add(100, 10, first=10**7)
            frontier.turn(10)
            return frontier.turn(10)

    small, large = cost(1_000), cost(20_000)
    assert large <= small * 1.05, (small, large)


# And what no claim can do without is done in parts: everybody else waits as long as one takes.


def looks(frontier: Counted, limit: int, *, partitions: int = 1) -> Iterator[ClaimReply]:
    """Claims that follow one another, up to one that leaves nothing to the next."""
    while True:
        reply = claim(frontier.session, ClaimRequest(limit, 1_000 * SECOND, "worker", 1, range(partitions)))
        yield reply
        if reply.next_ready_at is None or reply.next_ready_at > reply.now:
            return


def test_lanes_that_stricter_limits_hold_back_are_passed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swath.backends.sqlite.claim.MAX_CHORES", 100)
    with Counted(Settings(1, concurrency=1)) as frontier:
        frontier.add(2_000, 1_000)
        frontier.turn(1_000)
        frontier.session.settings = frontier.session.settings._replace(min_interval=3_600 * SECOND)
        resting = "SELECT count(*) FROM swath_lane WHERE ready_at > (SELECT time FROM swath_partition_state)"
        passed = [0]
        for reply in looks(frontier, 10):
            assert not reply.items
            passed += frontier.connection.execute(resting).fetchone()
        assert passed == list(range(0, 1_001, 100))


def test_claims_that_ended_are_taken_back_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swath.backends.sqlite.claim.MAX_CHORES", 100)
    with Counted(Settings(1, max_attempts=1)) as frontier:
        frontier.add(1_000, 10)
        for _ in range(25):
            claim(frontier.session, ClaimRequest(40, SECOND, "worker", 1, [0]))
        frontier.clock.advance(2)
        replies = list(looks(frontier, 1))
        assert [reply.died for reply in replies] == [120] * 8 + [40]
        state = frontier.connection.execute("SELECT claimed, dead, checkpoint FROM swath_partition_state").fetchone()
        assert state == (0, 1_000, 1_000)


def test_what_is_due_in_many_partitions_is_made_ready_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swath.backends.sqlite.claim.MAX_CHORES", 100)
    with Counted(Settings(10)) as frontier:
        now = frontier.session.clock.now()
        for partition in range(10):
            frontier.add(60, 1, partition=partition, not_before=now + SECOND)
            change_lane(frontier.session, partition, "lane 0", LaneChange(paused=True))
        frontier.clock.advance(2)
        ready = "SELECT sum(ready) FROM swath_partition_state"
        drained = [frontier.connection.execute(ready).fetchone()[0] for _ in looks(frontier, 10, partitions=10)]
        assert drained == [120, 240, 360, 480, 600]
