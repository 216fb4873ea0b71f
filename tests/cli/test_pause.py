import shlex

import pytest

from swath import Frontier, Item
from tests.cli.conftest import Run, add, look, on, run_swath, sqlite_only


def claimed(url: str) -> list[str]:
    """The lanes of what can be claimed, which is given back."""

    async def work(frontier: Frontier) -> list[str]:
        claim = await frontier.claim()
        if claim is None:
            return []
        await claim.settle([item.release(started=False) for item in claim.items])
        return sorted(item.lane for item in claim.items)

    return on(url, work)


def test_the_frontier(url: str, swath: Run) -> None:
    add(url, "a")
    result = swath("pause")
    assert (result.code, result.err) == (0, "")
    assert result.out == "The frontier is paused. Run `swath resume` to continue.\n"
    assert look(url).paused
    assert claimed(url) == []
    assert swath("resume").out.startswith("The frontier is running.")
    assert claimed(url) == ["default"]


def test_the_next_command_names_the_store_that_was_given(url: str) -> None:
    add(url, Item("a", "x"))
    assert run_swath("pause", "--store", url).out.endswith(
        f" Run `swath resume --store {shlex.quote(url)}` to continue.\n"
    )
    assert f"run `swath resume --store {shlex.quote(url)}` to" in run_swath("resume", "x", "--store", url).out
    assert run_swath("resume", "--store", url).out.endswith(f"`swath lanes --paused --store {shlex.quote(url)}`.\n")


def test_a_lane(url: str, swath: Run) -> None:
    add(url, Item("a", "x"), Item("b", "y"), partitions=1)
    assert swath("pause", "x").out == "Lane x is paused, with 1 waiting and 0 in flight.\n"
    assert claimed(url) == ["y"]
    swath("pause")
    both = swath("resume", "x").out
    assert both.startswith("Lane x is not paused")
    assert "The whole frontier is paused" in both
    assert swath("resume", "--json").json() == {"lane": None, "paused": False, "frontier_paused": False}
    assert claimed(url) == ["x", "y"]


@sqlite_only
@pytest.mark.parametrize(
    "command",
    [
        ("pause", "{lane}"),
        ("resume", "{lane}"),
        ("lanes", "{lane}"),
        ("lanes", "set", "{lane}", "--min-interval", "1s"),
        ("lanes", "block", "{lane}", "--for", "1h"),
        ("lanes", "unblock", "{lane}"),
    ],
)
def test_naming_a_lane_that_does_not_exist_creates_none(url: str, swath: Run, command: tuple[str, ...]) -> None:
    add(url, Item("a", "www.example.com"), Item("b", "other"))
    for typed, advice in (
        ("www.exmaple.com", "did you mean 'www.example.com'?"),
        ("WWW.Example.com", "did you mean 'www.example.com'?"),
        ("nothing\x9dlike it", None),
        ("nothing like it", "run swath lanes to list the lanes"),
    ):
        result = swath(*(word.format(lane=typed) for word in command))
        if advice is None:
            assert (result.code, result.out) == (2, "")
        else:
            assert (result.code, result.out) == (1, "")
            assert f"swath: lane '{typed}' does not exist: {advice}" in result.err
            assert ("--create" in result.err) is any(word in command for word in ("pause", "set", "block"))
    assert look(url).lanes == 2


@sqlite_only
def test_a_lane_is_created_on_request(url: str, swath: Run) -> None:
    """So that limits can hold before the first item."""
    add(url, "a")
    assert "No item was ever added to this lane." in swath("pause", "one", "--create").out
    assert swath("resume", "one").code == 0
    assert swath("lanes", "set", "two", "--min-interval", "2", "--create", "--json").json()["min_interval"] == 2.0
    assert swath("lanes", "block", "three", "--for", "1h", "--create", "--json").json()["state"] == "blocked"
    assert look(url).lanes == 4


def test_a_lane_whose_items_are_in_an_inbox_exists(url: str, swath: Run) -> None:
    async def discover(frontier: Frontier) -> None:
        await frontier.add([Item(f"k{n}", f"lane{n}") for n in range(8)])
        claim = await frontier.claim(8)
        assert claim is not None
        await claim.settle([item.done(discovered=[Item("new", f"found{item.key}")]) for item in claim.items])

    on(url, discover, partitions=4)
    for n in range(8):
        assert swath("pause", f"foundk{n}").out == f"Lane foundk{n} is paused, with 1 waiting and 0 in flight.\n"
