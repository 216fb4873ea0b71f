"""The surface for code without an event loop."""

import asyncio
import contextvars
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import swath
import swath.sync
from swath.core import events
from swath.core.clock import lease_clock
from swath.core.item import Item, Outcome
from swath.core.store import OutputMove
from swath.frontier import ADD_BUFFER
from swath.runner.run import Summary
from tests.forking import passes_in_a_child
from tests.recorder import PATIENCE

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "memory":
            return "memory:"
        case "sqlite":
            return f"sqlite:///{tmp_path}/work.db"
        case _:
            database: str = request.getfixturevalue("database")
            return database


@pytest.fixture
def frontier() -> Iterator[swath.sync.Frontier]:
    with swath.sync.open("memory:") as frontier:
        yield frontier


def test_the_surface_is_what_its_sources_make_it() -> None:
    check = subprocess.run(
        [sys.executable, ROOT / "scripts" / "make_sync.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (check.returncode, check.stderr) == (0, "")


def test_the_same_names_do_the_same(url: str) -> None:
    with swath.sync.open(url, min_interval=0) as frontier:
        assert frontier.add(["a", "b", "c", "d"]) == 4
        assert frontier.add("a") == 0
        claim = frontier.claim(limit=2, lease=30)
        assert claim is not None
        assert len(claim.items) == claim.remaining == 2
        claim.renew()
        claim.settle(item.dead(reason="enough") for item in claim.items)
        assert claim.remaining == 0
        assert [item.reason for item in frontier.dead()] == ["enough"] * 2
        assert frontier.reopen(key for key in ["a", "b"]) == 2
        frontier.pause()
        assert frontier.claim() is None
        frontier.resume()
        frontier.limit("default", concurrency=3)
        lane = frontier.lane("default")
        assert lane is not None
        assert lane.concurrency == 3
        assert [status.lane for status in frontier.lanes()] == ["default"]
        summary = frontier.run(lambda item: item.done(result=1), workers=3)
        assert (summary.done, summary.stopped_by) == (4, "done")
        assert (frontier.status().done, frontier.status().waiting) == (4, 0)
        assert frontier.explain("a").state == "done"


def test_a_text_is_one_key(frontier: swath.sync.Frontier) -> None:
    frontier.add(["abc", "a", "b", "c"])
    frontier.run(lambda item: item.done(facts={item.key: 1}))
    assert frontier.reopen("abc") == 1
    assert (frontier.status().ready, frontier.explain("abc").state) == (1, "ready")
    assert frontier.facts("abc") == {"abc": 1}


def test_when_a_lease_ends_can_be_told(frontier: swath.sync.Frontier) -> None:
    frontier.add("a")
    before = lease_clock()
    claim = frontier.claim(lease=30)
    assert claim is not None
    assert 30 - (lease_clock() - before) <= claim.seconds_left <= 30


def test_the_lengths_of_outputs_can_be_told(frontier: swath.sync.Frontier) -> None:
    frontier.add("a")
    claim = frontier.claim()
    assert claim is not None
    claim.settle([claim.items[0].done()], outputs=[OutputMove("file", 0, 10)])
    assert frontier.outputs() == {"file": 10}


def test_the_surface_promises_nothing_that_is_for_tasks() -> None:
    for surface in (swath.sync.Frontier, swath.sync.Claim):
        for name, method in vars(surface).items():
            said = method.__doc__ or ""
            assert not any(word in said for word in ("async", "await", "task")), name
    assert "no `transaction`" in (swath.sync.Frontier.run.__doc__ or "")


def test_handlers_run_in_as_many_threads_as_workers(frontier: swath.sync.Frontier) -> None:
    together = threading.Barrier(8)
    names = set()

    def handler(item: Item) -> None:
        together.wait(20)
        names.add(threading.current_thread().name)

    frontier.add(f"k{n}" for n in range(24))
    assert frontier.run(handler, workers=8).done == 24
    assert len(names) == 8


def test_handlers_may_call_the_frontier(frontier: swath.sync.Frontier) -> None:
    def handler(item: Item) -> None:
        if item.key == "a":
            frontier.add("b")

    frontier.add("a")
    assert frontier.run(handler, workers=2).done == 2


def test_handlers_see_the_context_of_the_caller(frontier: swath.sync.Frontier) -> None:
    known = contextvars.ContextVar("known", default="nothing")
    known.set("something")
    seen = []

    def handler(item: Item) -> None:
        seen.append(known.get())
        known.set("changed")

    frontier.add(["a", "b"])
    frontier.run(handler, workers=1)
    assert seen == ["something"] * 2


def test_what_a_handler_raises_is_a_retry(frontier: swath.sync.Frontier) -> None:
    def handler(item: Item) -> Outcome:
        raise StopIteration("of all things") if item.key == "a" else ValueError("no")

    frontier.add(["a", "b"])
    summary = frontier.run(handler, until="idle")
    assert summary.retried == 2
    assert frontier.explain("b").data["reason"] == "ValueError: no"
    assert "of all things" in frontier.explain("a").data["error"]


def test_generator_exit_is_a_retry(frontier: swath.sync.Frontier) -> None:
    def handler(item: Item) -> None:
        raise GeneratorExit

    frontier.add("a")
    assert frontier.run(handler, until="idle").retried == 1
    assert frontier.explain("a").data["reason"] == "GeneratorExit"


def test_what_ends_the_process_is_raised_in_the_caller(frontier: swath.sync.Frontier) -> None:
    def handler(item: Item) -> None:
        sys.exit(3)

    frontier.add("a")
    with pytest.raises(SystemExit) as exit:
        frontier.run(handler)
    assert exit.value.code == 3


def test_a_function_past_its_time_keeps_its_item_until_it_returns(frontier: swath.sync.Frontier) -> None:
    seen: list[str] = []

    def handler(item: Item) -> None:
        for _ in range(100):
            threading.Event().wait(0.005)
        seen.append(frontier.explain(item.key).state)

    frontier.add("a")
    summary = frontier.run(handler, timeout=0.1, until="idle")
    assert (seen, summary.retried) == (["claimed"], 1)


def test_iterables_are_drawn_from_in_the_calling_thread(frontier: swath.sync.Frontier) -> None:
    here = threading.current_thread()

    def keys() -> Iterator[str]:
        for n in range(2_500):
            assert threading.current_thread() is here
            yield f"k{n}"

    assert frontier.add(keys()) == 2_500
    assert frontier.facts(keys()) == {}
    assert frontier.reopen(keys()) == 0


def test_few_items_are_drawn_at_a_time_where_their_payloads_are_large() -> None:
    drawn, drawn_before = 0, []

    def items() -> Iterator[Item]:
        nonlocal drawn
        for n in range(300):
            drawn += 1
            yield Item(f"k{n}", payload="x" * 200_000)

    with swath.sync.open("memory:", observer=lambda event: drawn_before.append(drawn)) as frontier:
        assert frontier.add(items()) == 300
    assert drawn_before == [80, 160, 240, 300]


def test_a_bad_item_late_in_a_stream_says_how_many_went_before(frontier: swath.sync.Frontier) -> None:
    keys = [*(f"k{n}" for n in range(ADD_BUFFER + 5)), ""]
    with pytest.raises(swath.InvalidItem) as error:
        frontier.add(iter(keys))
    assert error.value.added == ADD_BUFFER + 5


def test_long_listings_arrive_page_by_page(frontier: swath.sync.Frontier) -> None:
    frontier.add(Item(f"k{n}", lane=f"lane {n}") for n in range(1_234))
    assert len({status.lane for status in frontier.lanes()}) == 1_234
    few = frontier.lanes()
    assert next(few).lane == "lane 0"


def test_a_time_limit_that_the_coroutine_ran_into_is_raised(frontier: swath.sync.Frontier) -> None:
    async def too_late() -> None:
        raise TimeoutError("in there")

    with pytest.raises(TimeoutError, match="in there"):
        frontier._portal.call(too_late())


def test_errors_are_those_of_swath() -> None:
    with pytest.raises(swath.InvalidStoreURL):
        swath.sync.open("nonsense:")
    for path in (Path("work.db"), b"sqlite:///work.db", None):
        with pytest.raises(swath.InvalidStoreURL, match="not a URL: use sqlite:///"):
            swath.sync.open(path)  # type: ignore[arg-type]
    with pytest.raises(swath.InvalidSetting), swath.sync.open("memory:", partitions=0):
        pass
    frontier = swath.sync.open("memory:")
    with pytest.raises(swath.InvalidItem):
        frontier.add("")
    with pytest.raises(swath.UsageError):
        frontier.add(7)  # type: ignore[arg-type]
    with pytest.raises(swath.UsageError, match="cannot be called"):
        frontier.run("handler")  # type: ignore[arg-type]

    async def asynchronous(item: Item) -> None:
        """Never called."""

    with pytest.raises(swath.UsageError, match=r"define it with `def`, or use swath\.open"):
        frontier.run(asynchronous)  # type: ignore[arg-type]
    with pytest.raises(swath.InvalidSetting):
        frontier.run(lambda item: None, workers=0)
    frontier.close()
    frontier.close()
    with pytest.raises(swath.UsageError, match="closed"):
        frontier.status()


def test_a_call_under_way_while_it_is_closed_is_told_so() -> None:
    frontier = swath.sync.open("memory:")
    waiting = threading.Event()
    told: list[BaseException] = []

    async def wait() -> None:
        waiting.set()
        await asyncio.Event().wait()

    def call() -> None:
        try:
            frontier._portal.call(wait())
        except BaseException as error:  # noqa: BLE001  whatever it is
            told.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert waiting.wait(PATIENCE)
    frontier.close()
    thread.join(PATIENCE)
    assert [type(error) for error in told] == [swath.UsageError]
    assert str(told[0]) == "this frontier is closed: open it again"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_frontier_that_came_through_a_fork_is_refused(frontier: swath.sync.Frontier) -> None:
    def in_the_child() -> None:
        with pytest.raises(swath.UsageError, match="by a fork"):
            frontier.add("a")
        frontier.close()

    assert passes_in_a_child(in_the_child)
    assert frontier.add("a") == 1


def test_no_thread_is_left_behind() -> None:
    before = set(threading.enumerate())
    with swath.sync.open("memory:") as frontier:
        frontier.add(["a", "b"])
        threads = frontier.run(lambda item: None, workers=2)
        assert threads.done == 2
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
    assert set(threading.enumerate()) <= before


def test_closing_waits_for_the_end_of_the_thread(url: str) -> None:
    before = set(threading.enumerate())
    frontier = swath.sync.open(url)
    frontier.add("a")
    frontier.close()
    assert set(threading.enumerate()) <= before


def test_a_frontier_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with pytest.raises(swath.NotAFrontier):
        swath.sync.open(f"sqlite:///{tmp_path}/missing.db", create=False)
    assert set(threading.enumerate()) <= before


def test_an_observer_that_calls_back_is_told_so() -> None:
    told: list[Exception] = []

    def observe(event: events.Event) -> None:
        try:
            opened.status()
        except swath.UsageError as error:
            told.append(error)

    with swath.sync.open("memory:", observer=observe) as opened:
        opened.add("a")
    assert "another thread" in str(told[0])


def test_a_run_in_another_thread_leaves_signals_alone(frontier: swath.sync.Frontier) -> None:
    summaries: list[Summary] = []
    frontier.add("a")
    thread = threading.Thread(target=lambda: summaries.append(frontier.run(lambda item: None)))
    thread.start()
    thread.join(20)
    assert [summary.done for summary in summaries] == [1]


# the caller's own transaction


def test_settling_in_the_callers_sqlite_transaction(tmp_path: Path) -> None:
    """The connection belongs to this thread, as sqlite3 checks, and so the settlement happens here."""
    path = tmp_path / "work.db"
    with swath.sync.open(f"sqlite:///{path}") as frontier:
        frontier.add(["a", "b"])
        claim = frontier.claim(limit=2)
        assert claim is not None
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("CREATE TABLE mine (key TEXT)")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO mine VALUES ('a')")
        claim.settle([claim.items[0].done()], connection=connection)
        connection.execute("COMMIT")
        assert frontier.status().done == 1
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO mine VALUES ('b')")
        with pytest.raises(swath.InvalidOutcome):
            claim.settle([claim.items[0].done()], connection=connection)
        assert not connection.in_transaction, "what cannot be settled cannot be committed"
        claim.settle([claim.items[1].done()])
        assert connection.execute("SELECT key FROM mine").fetchall() == [("a",)]
        assert frontier.status().done == 2
        connection.close()


def test_an_interrupt_before_a_settlement_in_a_transaction_leaves_the_loop_alive(tmp_path: Path) -> None:
    path, begun, go_on = tmp_path / "work.db", threading.Event(), threading.Event()

    def observe(event: events.Event) -> None:
        if isinstance(event, events.LaneChanged):
            begun.set()
            go_on.wait(PATIENCE)

    frontier = swath.sync.open(f"sqlite:///{path}", observer=observe)
    frontier.add("a")
    claim = frontier.claim()
    assert claim is not None
    changing = threading.Thread(target=frontier.pause, args=["lane"], daemon=True)
    changing.start()
    assert begun.wait(PATIENCE), "the loop is busy"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    threading.Timer(0.1, signal.pthread_kill, [threading.get_ident(), signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        claim.settle([claim.items[0].done()], connection=connection)
    connection.close()
    go_on.set()
    ending = threading.Thread(target=frontier.close, daemon=True)
    ending.start()
    ending.join(PATIENCE)
    assert not ending.is_alive(), "the loop waits for a thread that is gone"


def test_settling_in_the_callers_postgresql_transaction(database: str) -> None:
    with swath.sync.open(database) as frontier, psycopg.connect(database) as connection:
        frontier.add("a")
        claim = frontier.claim()
        assert claim is not None
        connection.execute("CREATE TABLE mine (key TEXT)")
        connection.execute("INSERT INTO mine VALUES ('a')")
        claim.settle([claim.items[0].done()], connection=connection)
        assert frontier.status().done == 0
        connection.commit()
        assert frontier.status().done == 1
