"""`swath items` and `swath claims`."""

import pytest

from swath import Frontier, Item
from tests.cli.conftest import Run, on, sqlite_only

HOSTILE = "https://a.example/\x1b[2J\u202e"


def fill(url: str) -> None:
    """One item in every state, in lane x, and a ready one in lane y."""

    async def work(frontier: Frontier) -> None:
        await frontier.add([Item(key, lane="x") for key in ("done", "dead", "retried", "claimed")])
        claim = await frontier.claim(lease=90)
        assert claim is not None
        one = {item.key: item for item in claim.items}
        await claim.settle(
            [
                one["done"].done(result={"a": 1}),
                one["dead"].dead(reason="gone\x1b[1m", error="trace"),
                one["retried"].retry(after=3_600, reason="busy"),
            ]
        )
        await frontier.add([Item("ready", lane="x", priority=5), Item(HOSTILE, lane="y")])

    on(url, work)


def test_items_of_each_state(url: str, swath: Run) -> None:
    fill(url)

    def read(state: str) -> list[list[str]]:
        result = swath("items", "--state", state)
        assert (result.code, result.err) == (0, "")
        return [line.split("\t") for line in result.out.splitlines()]

    assert sorted(read("ready")) == [[r"https://a.example/\x1b[2J\u202e", "y", "3", "0"], ["ready", "x", "5", "0"]]
    ((key, lane, attempts, _, failure),) = read("delayed")
    assert (key, lane, attempts, failure) == ("retried", "x", "1", "busy")
    ((key, lane, _, result),) = read("done")
    assert (key, lane, result) == ("done", "x", '{"a": 1}')
    ((key, *_, reason),) = read("dead")
    assert (key, reason) == ("dead", r"gone\x1b[1m")
    ((key, lane, attempts, number),) = read("claimed")
    assert (key, lane, attempts) == ("claimed", "x", "0")
    ((claim, items, since, left, worker),) = [line.split("\t") for line in swath("claims").out.splitlines()]
    assert (claim, items) == (number, "1")
    assert left.endswith(" s")
    assert since.endswith(" UTC")
    assert ":" in worker
    (data,) = swath("claims", "--json").json_lines()
    assert (data["claim"], data["items"], data["worker"]) == (int(number), 1, worker)
    assert 0 < data["lease_left"] <= 90


@sqlite_only
def test_items_as_json_and_of_a_lane(url: str, swath: Run) -> None:
    fill(url)
    (item,) = swath("items", "--lane", "x", "--json").json_lines()
    assert item == {
        "key": "ready", "lane": "x", "state": "ready", "priority": 5, "payload": None, "partition": item["partition"],
        "position": item["position"], "attempts": 0, "reason": None, "error": None,
    }  # fmt: skip
    (item,) = swath("items", "--state", "done", "--json").json_lines()
    assert (item["result"], item["since"][:2]) == ({"a": 1}, "20")
    (item,) = swath("items", "--state", "delayed", "--json").json_lines()
    assert (item["revisit"], item["reason"], item["due"][:2]) == (False, "busy", "20")


@sqlite_only
def test_limit_and_mistakes(url: str, swath: Run) -> None:
    fill(url)
    assert len(swath("items", "--limit", "1").out.splitlines()) == 1
    assert swath("items", "--limit", "1").err == "the first 1; --limit 0 lists all\n"
    assert len(swath("items", "--limit", "0").out.splitlines()) == 2
    wrong = swath("items", "--state", "lost")
    assert wrong.code == 2
    assert "give one of ready, delayed, claimed, done, dead" in wrong.err
    assert swath("items", "--lane", "").code == 2


@sqlite_only
@pytest.mark.parametrize("order", ["waiting", "ready"])
def test_lanes_in_an_order(order: str, url: str, swath: Run) -> None:
    async def work(frontier: Frontier) -> None:
        await frontier.add(
            [Item(f"{lane}{n}", lane=lane) for lane, count in (("a", 1), ("b", 3), ("c", 2)) for n in range(count)]
        )
        await frontier.block("b", seconds=3_600)

    on(url, work)
    names = [lane["lane"] for lane in swath("lanes", "--sort", order, "--json").json_lines()]
    assert names == {"waiting": ["b", "c", "a"], "ready": ["a", "c", "b"]}[order]
    assert len(swath("lanes", "--sort", order, "--limit", "1").out.splitlines()) == 1
    assert [lane["lane"] for lane in swath("lanes", "--sort", order, "--blocked", "--json").json_lines()] == ["b"]
    assert swath("lanes", "--sort", "name").code == 2
    assert swath("lanes", "--sort", order, "--limit", "0").code == 2
