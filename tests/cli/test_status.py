import json
import re
import signal
import sqlite3
import subprocess
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from swath import Checkpoint, Frontier, Item, Status
from swath.cli.status_view import StatusView, compute_rates, make_live_panel
from swath.cli.status_waits import MAX_LANES
from tests.cli.conftest import COMMAND, Run, environment, on, run_swath, sqlite_only
from tests.cli.test_terminal import Terminal


def settle_some(url: str) -> None:
    async def work(frontier: Frontier) -> None:
        await frontier.add([Item(f"k{n}", f"lane{n % 3}") for n in range(10)])
        claim = await frontier.claim(limit=4)
        assert claim is not None
        first, *rest = claim.items
        await claim.settle([first.dead(reason="gone"), *(item.done() for item in rest)])

    on(url, work, partitions=4)


def test_plain_output_is_names_and_values(url: str, swath: Run) -> None:
    settle_some(url)
    facts = swath("status").facts()
    settled = int(facts["done"]) + int(facts["dead"])
    assert facts["dead"] == "1"
    assert int(facts["ready"]) + settled == 10
    assert facts["lanes"] == "3"
    assert facts["paused"] == "no"
    assert int(facts["end"]) - int(facts["checkpoint"]) == int(facts["lag"])
    assert facts["end"] == "10"
    assert not any(name.startswith("partition ") for name in facts)


@sqlite_only
def test_partitions_lists_each(url: str, swath: Run) -> None:
    settle_some(url)
    facts = swath("status", "--partitions").facts()
    parts = [value for name, value in facts.items() if name.startswith("partition ")]
    assert len(parts) == 4
    ready = sum(int(field.removeprefix("ready=")) for part in parts for field in part.split() if "ready=" in field)
    assert ready == int(facts["ready"])


def test_json_is_complete(url: str, swath: Run) -> None:
    settle_some(url)
    data = swath("status", "--json").json()
    assert set(data) == {
        "store", "now", "paused", "ready", "delayed", "claimed", "inbox", "done", "dead", "lanes", "waiting", "lag",
        "lag_seconds", "next_ready_at", "defaults", "checkpoint", "partitions", "settled_share", "waits", "kind",
    }  # fmt: skip
    assert data["defaults"] == {"min_interval": 0.0, "concurrency": None, "max_attempts": 5}
    assert data["waiting"] == data["ready"] + data["delayed"] + data["claimed"] + data["inbox"]
    assert len(data["partitions"]) == 4
    for name in ("ready", "done", "dead", "lanes"):
        assert sum(part[name] for part in data["partitions"]) == data[name]
    assert sum(part["checkpoint"]["position"] for part in data["partitions"]) == data["checkpoint"]["position"]
    assert data["checkpoint"]["end"] - data["checkpoint"]["position"] == data["lag"]
    assert 0 <= data["lag_seconds"] < 60
    assert max(part["lag_seconds"] or 0 for part in data["partitions"]) == data["lag_seconds"]


def test_watch_prints_a_line_each_time_and_leaves_on_interrupt(url: str, swath: Run) -> None:
    settle_some(url)
    command = [*COMMAND, "status", "--watch", "--every", "0.1", "--json"]
    env = environment(SWATH_STORE=url)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        looks = [json.loads(run.stdout.readline()) for _ in range(3)]
        run.send_signal(signal.SIGINT)
        assert run.wait(30) == 0
        assert run.stderr.read() == b""
    assert "per_second" not in looks[0]
    assert looks[2]["per_second"] == {"done": 0.0, "dead": 0.0, "added": 0.0}
    assert looks[0]["now"] < looks[2]["now"]


@sqlite_only
def test_watch_without_json_is_one_line_a_look(url: str, swath: Run) -> None:
    settle_some(url)
    command = [*COMMAND, "status", "--every", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(SWATH_STORE=url)) as run:
        assert run.stdout is not None
        lines = [run.stdout.readline().decode() for _ in range(2)]
        run.send_signal(signal.SIGINT)
        assert run.wait(30) == 0
    assert all("dead=1 lanes=3" in line for line in lines)
    assert "done_per_second=0.0" in lines[1]


@sqlite_only
def test_a_number_after_watch_is_answered_with_the_option_for_it(swath: Run) -> None:
    result = swath("status", "--watch", "5")
    assert (result.code, result.out) == (2, "")
    assert "give --every 5" in result.err
    assert swath("status", "--every", "0").code == 2


def make_status(seconds: float, *, done: int = 0, end: int = 2, ready: int = 0, claimed: int = 0) -> Status:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return Status(
        ready=ready, delayed=0, claimed=claimed, done=done, visits=done, dead=0, lanes=1, inbox=0, paused=False,
        min_interval=0.0, concurrency=1, max_attempts=5, checkpoints=[Checkpoint(0, 0, 0, end)],
        next_ready_at=epoch + timedelta(seconds=60), now=epoch + timedelta(seconds=seconds),
    )  # fmt: skip


def test_rates_are_by_the_clock_of_the_store() -> None:
    rates = compute_rates(make_status(10.0, done=100, end=200), make_status(12.0, done=150, end=600))
    assert rates is not None
    assert (rates.done, rates.dead, rates.added) == (25.0, 0.0, 200.0)
    assert compute_rates(make_status(10.0), make_status(10.0)) is None


def test_the_end_of_a_lease_is_not_announced_as_the_next_ready_time() -> None:
    """If the only lane is busy, it is ready when its item is settled, long before the lease ends."""

    def show(*, ready: int, claimed: int) -> str:
        console = Console(width=120, file=StringIO(), record=True)
        console.print(make_live_panel(StatusView("memory:", make_status(0, ready=ready, claimed=claimed)), False))
        return console.export_text()

    assert "in 60 s, 1970-01-01 00:01:00 UTC, or when an item in flight is settled" in show(ready=1, claimed=1)
    assert "in 60 s, 1970-01-01 00:01:00 UTC  " in show(ready=1, claimed=0)
    assert "no item is waiting except those in flight" in show(ready=0, claimed=2)


# In words


def render(url: str, *args: str, width: int = 200) -> str:
    """What `swath status` prints on a terminal, without boxes."""
    terminal = Terminal("status", *args, store=url, width=width)
    assert terminal.finish() == 0
    return " ".join(terminal.text.replace("│", " ").split())


@sqlite_only
def test_items_of_a_paused_lane_do_not_wait_for_a_worker(url: str, swath: Run) -> None:
    async def work(frontier: Frontier) -> None:
        await frontier.add([Item(f"k{n}", f"lane{n % 3}") for n in range(9)])
        await frontier.pause("lane1")
        await frontier.block("lane2", seconds=1_000)

    on(url, work)
    shown = render(url)
    assert "ready 9 waiting: 3 for a worker, 3 in a paused lane, 3 in a blocked lane" in shown
    assert "lanes 3 1 of them paused" in shown
    assert swath("status", "--json").json()["waits"]["ready"] == {"ready": 3, "paused": 3, "blocked": 3}
    swath("pause")
    assert "ready 9 waiting for the end of the pause" in render(url)
    assert "swath resume # end the pause" in render(url)


@sqlite_only
def test_a_frontier_with_many_lanes_is_not_searched_for_paused_ones(url: str, swath: Run) -> None:
    async def work(frontier: Frontier) -> None:
        await frontier.add([Item(f"k{n}", f"lane{n}") for n in range(MAX_LANES + 1)])
        await frontier.pause("lane1")

    on(url, work)
    assert "waiting for a worker, or for their lane if it is paused or resting" in render(url)
    assert swath("status", "--json").json()["waits"] == {"ready": None, "paused_lanes": None, "delayed": {}}


@sqlite_only
def test_delayed_items_say_what_they_wait_for(url: str, swath: Run) -> None:
    async def work(frontier: Frontier) -> None:
        await frontier.add(["retried", "revisited"])
        claim = await frontier.claim()
        assert claim is not None
        retried, revisited = sorted(claim.items, key=lambda item: item.key)
        await claim.settle([retried.retry(after=600, reason="busy"), revisited.done(revisit_after=600)])
        await frontier.add(Item("later", not_before=datetime(2040, 1, 1, tzinfo=UTC)))

    on(url, work)
    assert swath("status", "--json").json()["waits"]["delayed"] == {"retry": 1, "revisit": 1, "start": 1}
    shown = render(url)
    for words in ("1 to be tried again", "1 done, to be visited again", "1 not to be started yet"):
        assert words in shown


def test_many_partitions_are_a_summary(database: str) -> None:
    async def work(frontier: Frontier) -> None:
        await frontier.add([Item(f"k{n}", "one lane") for n in range(5)])

    on(database, work)
    shown = render(database)
    assert "checkpoint at the end in 63 of 64 partitions" in shown
    assert ", by 5 positions" in shown
    assert "settled" in shown.partition("checkpoint")[0]
    assert len(re.findall(r"\b5 0 0 0 0 0 1 0 5 5\b", render(database, "--partitions"))) == 1


@sqlite_only
def test_an_empty_frontier_says_so(url: str, swath: Run) -> None:
    swath("db", "init")
    shown = render(url)
    assert "checkpoint no item was ever added" in shown
    assert "next ready no item is waiting" in shown
    assert swath("status", "--json").json()["settled_share"] is None


def test_a_backfill_shows_keys_and_a_scan_shows_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("app.db") as connection:
        connection.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, n)")
        connection.executemany("INSERT INTO users VALUES (?, 1)", [(number,) for number in range(1, 101)])
    connection.close()
    assert run_swath("backfill", "--db", "sqlite:///app.db", "--table", "users", "--set", "n = 2").code == 0
    shown = render("app.db")
    assert "100.0% of the keys are covered" in shown
    assert "backfill users by id covered every row, up to 100" in shown
    assert "checkpoint" not in shown
    (tmp_path / "checks.py").write_text("def check(row):\n    pass\n")
    run_swath("scan", "--source", "sqlite:///app.db#users", "--check", "checks:check")
    shown = render("findings.jsonl")
    assert "scan sqlite:///app.db#users with checks:check records 100" in shown
    assert "100.0% of the source is scanned" in shown
    assert "findings none open" in shown
    data = run_swath("status", "findings.jsonl", "--json").json()
    assert (data["kind"], data["scan"]["records"], data["scan"]["open"]) == ("scan", 100, {})
