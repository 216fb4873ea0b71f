import json
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from io import StringIO

from rich.console import Console

from swath import Checkpoint, Frontier, Item, Status
from swath.cli.status_view import StatusView, compute_rates, make_live_panel
from tests.cli.conftest import COMMAND, Run, environment, on, sqlite_only


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
        "next_ready_at", "defaults", "checkpoint", "partitions", "settled_share", "waits", "kind",
    }  # fmt: skip
    assert data["defaults"] == {"min_interval": 0.0, "concurrency": None, "max_attempts": 5}
    assert data["waiting"] == data["ready"] + data["delayed"] + data["claimed"] + data["inbox"]
    assert len(data["partitions"]) == 4
    for name in ("ready", "done", "dead", "lanes"):
        assert sum(part[name] for part in data["partitions"]) == data[name]
    assert sum(part["checkpoint"]["position"] for part in data["partitions"]) == data["checkpoint"]["position"]
    assert data["checkpoint"]["end"] - data["checkpoint"]["position"] == data["lag"]


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

    def render(*, ready: int, claimed: int) -> str:
        console = Console(width=120, file=StringIO(), record=True)
        console.print(make_live_panel(StatusView("memory:", make_status(0, ready=ready, claimed=claimed)), False))
        return console.export_text()

    assert "in 60 s, 1970-01-01 00:01:00 UTC, or when an item in flight is settled" in render(ready=1, claimed=1)
    assert "in 60 s, 1970-01-01 00:01:00 UTC  " in render(ready=1, claimed=0)
    assert "no item is waiting except those in flight" in render(ready=0, claimed=2)
