import os
import subprocess

from swath import Frontier
from tests.cli.conftest import COMMAND, Run, environment, kill, look, on, sqlite_only


def test_listing(url: str, swath: Run) -> None:
    kill(url, "a", "b", reason="HTTP 410", error="line 1\nline 2")
    kill(url, "c", lane="x", reason="timed out")
    result = swath("dead")
    assert (result.code, result.err) == (0, "")
    rows = sorted(line.split("\t") for line in result.out.splitlines())
    assert [(row[0], row[1], row[2], row[4]) for row in rows] == [
        ("a", "default", "1", "HTTP 410"),
        ("b", "default", "1", "HTTP 410"),
        ("c", "x", "1", "timed out"),
    ]
    assert sorted(swath("dead", "list").out.splitlines()) == sorted(result.out.splitlines())
    errors = swath("dead", "--errors", "--reason", "410").out.splitlines()
    assert [line.split("\t")[5] for line in errors] == [r"line 1\nline 2"] * 2
    assert len(swath("dead", "--limit", "1").out.splitlines()) == 1
    assert [line.split("\t")[0] for line in swath("dead", "--lane", "x").out.splitlines()] == ["c"]


def test_json_is_a_line_for_each_item(url: str, swath: Run) -> None:
    kill(url, "a", reason="HTTP 410", error="E")
    (item,) = swath("dead", "--json").json_lines()
    assert set(item) == {
        "key", "lane", "state", "attempts", "since", "reason", "error", "priority", "payload", "partition", "position",
    }  # fmt: skip
    assert (item["key"], item["attempts"], item["reason"], item["error"]) == ("a", 1, "HTTP 410", "E")


def test_retry_by_key_leaves_the_done_alone(url: str, swath: Run) -> None:
    kill(url, "a", "b")

    async def finish(frontier: Frontier) -> None:
        await frontier.add("finished")
        claim = await frontier.claim()
        assert claim is not None
        await claim.settle([item.done() for item in claim.items])

    on(url, finish)
    result = swath("dead", "retry", "a", "finished", "nobody")
    assert (result.code, result.out) == (0, "1 dead item made ready again\n")
    complaints = result.err.splitlines()
    assert complaints[0].startswith("swath: not dead: finished was done")
    assert complaints[1] == "swath: not dead: nobody was never added."
    status = look(url)
    assert (status.ready, status.dead, status.done) == (1, 1, 1)
    assert swath("dead", "retry", "nobody").code == 1


def test_retry_by_key_finds_it_in_every_lane(url: str, swath: Run) -> None:
    async def finish(frontier: Frontier) -> None:
        await frontier.add("a")
        claim = await frontier.claim()
        assert claim is not None
        await claim.settle([claim.items[0].done()])

    on(url, finish)
    for lane in ("x", "y", "z"):
        kill(url, "a", lane=lane)
    assert swath("dead", "retry", "a", "--lane", "x").out == "1 dead item made ready again\n"
    result = swath("dead", "retry", "a")
    assert (result.code, result.out, result.err) == (0, "2 dead items made ready again\n", "")
    status = look(url)
    assert (status.ready, status.dead, status.done) == (3, 0, 1)


def test_retry_by_reason_lane_and_all(url: str, swath: Run) -> None:
    kill(url, "a", "b", reason="HTTP 410")
    kill(url, "c", lane="x", reason="timed out")
    kill(url, "d", lane="y", reason="timed out")
    assert swath("dead", "retry", "--reason", "time", "--lane", "x", "--json").json() == {"reopened": 1}
    assert swath("dead", "retry", "--reason", "410").out == "2 dead items made ready again\n"
    assert swath("dead", "retry", "--all").out == "1 dead item made ready again\n"
    assert swath("dead", "retry", "--all").code == 1
    assert look(url).ready == 4


@sqlite_only
def test_where_there_is_none_it_says_where_it_looked(url: str, swath: Run) -> None:
    kill(url, "a", reason="HTTP 410")
    none = swath("dead", "retry", "--lane", "x")
    assert (none.code, none.out) == (1, "0 dead items made ready again\n")
    assert none.err == "swath: no dead items in lane x\n"
    none = swath("dead", "retry", "--lane", "default", "--reason", "503")
    assert none.err == "swath: no dead items in lane default whose reason contains '503'\n"
    none = swath("dead", "retry", "a", "--lane", "x")
    assert none.err == "swath: not dead: a was never added to lane x. It is in lane default.\n"


@sqlite_only
def test_retry_wants_to_know_which(url: str, swath: Run) -> None:
    kill(url, "a")
    for args in [(), ("a", "--all"), ("a", "--reason", "x"), ("--all", "--lane", "x")]:
        result = swath("dead", "retry", *args)
        assert result.code == 2, (args, result)
    assert "No such command 'retyr'. Did you mean 'retry'?" in swath("dead", "retyr").words
    assert look(url).dead == 1


def test_a_reader_that_leaves_early_is_no_error(url: str) -> None:
    kill(url, *(f"key-{n}" for n in range(3000)), reason="r" * 200)
    command = [*COMMAND, "dead", "--limit", "0"]
    env = environment(SWATH_STORE=url)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        os.read(run.stdout.fileno(), 100)
        run.stdout.close()
        assert run.stderr.read() == b""
        assert run.wait(30) == 0
