import os
import pty
import signal
import subprocess
from shlex import quote

import pytest

from swath import Frontier, Item
from tests.cli.conftest import COMMAND, Run, add, environment, look, on, sqlite_only, where


def fill(url: str) -> None:
    """Two lanes. In the first, one item is in flight, one failed for now and one is to be visited again."""

    async def work(frontier: Frontier) -> None:
        await frontier.add(Item(f"k{n}", "tired") for n in range(8))
        claim = await frontier.claim(3)
        assert claim is not None
        await claim.settle([claim.items[0].retry(after=600), claim.items[1].done(revisit_after=600)])
        await frontier.add([Item("other/k1", "fresh"), Item("other/k2", "fresh")])

    on(url, work, partitions=2)


def test_a_lane(url: str, swath: Run) -> None:
    fill(url)
    counted = (
        "7 items of lane tired are waiting: 5 ready, 1 delayed, 1 done and waiting for a revisit; "
        "1 in flight is not touched.\n"
    )
    assert swath("drop", "--lane", "tired", "--dry-run").out == counted
    counts = swath("drop", "--lane", "tired", "--dry-run", "--json").json()
    assert counts == {"ready": 5, "delayed": 1, "revisits": 1, "in_flight": 1, "dropped": 0}
    assert look(url).done == 0
    refused = swath("drop", "--lane", "tired")
    assert (refused.code, refused.out) == (2, counted)
    assert "nothing was dropped: there is no terminal to ask on, so add --yes" in refused.err
    assert look(url).done == 0
    dropped = swath("drop", "--lane", "tired", "--yes")
    again = f"7 items dropped. To make them ready again:\nswath drop --undo --lane tired --store {quote(url)}\n"
    assert (dropped.code, dropped.out) == (0, counted + again)
    status = look(url)
    assert (status.ready, status.delayed, status.claimed, status.done, status.visits) == (2, 0, 1, 7, 1)
    assert where(url, "k5").data["result"] == {"dropped": "swath drop --lane tired"}
    explained = swath("explain", "k5")
    assert "was dropped" in explained.out
    assert "swath drop --lane tired." in explained.out
    nothing = swath("drop", "--lane", "tired", "--yes")
    assert (nothing.code, nothing.out) == (1, "")
    assert nothing.err == "swath: 0 items of lane tired are waiting; 1 in flight is not touched.\n"
    assert on(url, lambda frontier: frontier.check()).ok


def test_undo_takes_what_was_dropped_and_nothing_else(url: str, swath: Run) -> None:
    async def finish(frontier: Frontier) -> None:
        await frontier.add(Item(f"{lane}/{n}", lane) for lane in "ab" for n in range(3))
        claim = await frontier.claim(1)
        assert claim is not None
        await claim.settle([claim.items[0].done(result={"status": 200})])

    on(url, finish, partitions=1)
    assert swath("drop", "--lane", "a", "--lane", "b", "--yes", "--json").json() == {"dropped": 5}
    assert swath("drop", "--undo", "--lane", "b", "--dry-run").out.startswith("3 dropped items of lane b would be")
    assert (
        swath("drop", "--undo", "--pattern", "/2$").out == "2 dropped items whose key matches '/2$' made ready again.\n"
    )
    assert swath("drop", "--undo", "b/1", "b/2", "--json").json() == {"reopened": 1}
    assert swath("drop", "--undo", "--lane", "a", "--lane", "b").out == "2 dropped items of 2 lanes made ready again.\n"
    nothing = swath("drop", "--undo", "--lane", "a")
    assert (nothing.code, nothing.out) == (1, "")
    assert nothing.err == "swath: no item of lane a was dropped\n"
    status = look(url)
    assert (status.ready, status.done) == (5, 1)


def test_a_pattern_and_keys(url: str, swath: Run) -> None:
    fill(url)
    assert swath("drop", "--pattern", r"/k\d", "--lane", "tired", "--yes").code == 1
    assert swath("drop", "--pattern", r"/k2|^k[67]", "--yes").out.splitlines() == [
        "3 items whose key matches '/k2|^k[67]' are waiting: 3 ready.",
        "3 items dropped. To make them ready again:",
        f"swath drop --undo --pattern '/k2|^k[67]' --store {quote(url)}",
    ]
    result = swath("drop", "k5", "other/k1", "other/k2", "nobody", "--yes")
    assert result.out.splitlines()[:2] == [
        "2 items are waiting: 2 ready.",
        "2 items dropped. To make them ready again:",
    ]
    complaints = result.err.splitlines()
    assert complaints[0].startswith("swath: not waiting: other/k2 was dropped")
    assert complaints[1] == "swath: not waiting: nobody was never added."
    assert swath("drop", "k4", "--lane", "fresh", "--yes").code == 1
    assert where(url, "k4").state == "ready"


def test_items_in_an_inbox(url: str, swath: Run) -> None:
    """In a paused frontier nobody takes in what was discovered for another partition."""

    async def discover(frontier: Frontier) -> None:
        await frontier.add([Item(f"k{n}", f"lane{n}") for n in range(8)])
        claim = await frontier.claim(8)
        assert claim is not None
        found = [Item(f"new{n}", f"found{n}") for n in range(8)]
        await claim.settle([item.done(discovered=found) for item in claim.items])
        await frontier.pause()

    on(url, discover, partitions=4)
    assert swath("drop", "--lane", "found3", "--yes", "--json").json() == {"dropped": 1}
    assert swath("drop", "new5", "--yes", "--json").json() == {"dropped": 1}
    assert swath("drop", "--pattern", "new", "--yes", "--json").json() == {"dropped": 6}
    status = look(url)
    assert (status.ready, status.inbox, status.done) == (0, 0, 16)


@sqlite_only
@pytest.mark.parametrize(
    ("args", "code", "complaint"),
    [
        ((), 2, "no items selected: give keys, --lane NAME or --pattern RE"),
        (("--pattern", "("), 2, "--pattern '(' is not a regular expression"),
        (("k1", "--pattern", "k"), 2, "--pattern cannot be combined with keys"),
        (("--lane", "tird", "--yes"), 1, "lane 'tird' does not exist: did you mean 'tired'?"),
        (("--lane", "tired", "--lane", "\x07", "--yes"), 2, "control characters"),
        (("--lane", "nobody", "--undo"), 1, "lane 'nobody' does not exist: run swath lanes to list the lanes"),
    ],
)
def test_wrong_ways(url: str, swath: Run, args: tuple[str, ...], code: int, complaint: str) -> None:
    fill(url)
    before = look(url)
    result = swath("drop", *args)
    assert (result.code, result.out) == (code, ""), result
    assert complaint in result.err
    after = look(url)
    assert (after.ready, after.delayed, after.lanes) == (before.ready, before.delayed, 2)


@sqlite_only
def test_control_characters_in_keys_are_escaped(url: str, swath: Run) -> None:
    add(url, "a\x1b[2Jb")
    assert "\x1b" not in swath("drop", "a\x1b[2Jb", "--yes").out
    result = swath("drop", "a\x1b[2Jb", "--yes")
    assert "\x1b" not in result.out + result.err


def ask(url: str, answer: str | None, *options: str) -> tuple[int, str]:
    """Answer the question on a terminal, or interrupt it; return the exit code and what stands on the screen."""
    ours, theirs = pty.openpty()
    command = subprocess.Popen(
        [*COMMAND, "drop", "--lane", "tired", *options],
        stdin=theirs, stdout=theirs, stderr=theirs,
        env=environment(SWATH_STORE=url, TERM="dumb", COLUMNS="100"),
    )  # fmt: skip
    os.close(theirs)
    screen = b""
    try:
        while b"[y/N]" not in screen:
            screen += os.read(ours, 10_000)
        if answer is None:
            command.send_signal(signal.SIGINT)
        else:
            os.write(ours, answer.encode())
        while True:
            try:
                screen += os.read(ours, 10_000)
            except OSError:  # the command has ended
                return command.wait(60), screen.decode()
    finally:
        os.close(ours)
        command.kill()
        command.wait()


@sqlite_only
def test_a_question_on_a_terminal(url: str) -> None:
    fill(url)
    code, screen = ask(url, "n\n")
    assert (code, look(url).done) == (1, 0)
    assert "swath: nothing was dropped" in screen
    code, screen = ask(url, None)
    assert (code, look(url).done) == (130, 0)
    code, screen = ask(url, "y\n")
    assert (code, look(url).done) == (0, 7)
    assert "7 items dropped." in screen


@sqlite_only
def test_a_question_says_how_many_items_also_with_json(url: str) -> None:
    fill(url)
    code, screen = ask(url, "y\n", "--json")
    assert (code, look(url).done) == (0, 7)
    before, _, after = screen.partition("[y/N]")
    assert "7 items of lane tired are waiting: 5 ready" in before
    assert '"dropped": 7' in after
