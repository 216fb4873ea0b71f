from swath import Frontier, Item
from tests.cli.conftest import Run, add, look, on, sqlite_only


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
    assert result.out == "The frontier is paused. Run swath resume to continue.\n"
    assert look(url).paused
    assert claimed(url) == []
    assert swath("resume").out.startswith("The frontier is running.")
    assert claimed(url) == ["default"]


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
def test_lanes_that_are_not_there(url: str, swath: Run) -> None:
    add(url, "a")
    assert "No item was ever added to this lane." in swath("pause", "typo").out
    assert swath("resume", "typo").code == 0
    missing = swath("resume", "nobody")
    assert (missing.code, missing.out) == (1, "")
    assert "lane 'nobody' does not exist" in missing.err
