from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from swath import Item, LaneInfo
from swath.cli.lanes_view import describe_state, get_state
from tests.cli.conftest import Run, add, on, sqlite_only


def fill(url: str, **counts: int) -> None:
    items = [Item(f"{lane}{n}", lane) for lane, count in counts.items() for n in range(count)]
    add(url, *items, partitions=2)


def test_plain_listing_is_tab_separated(url: str, swath: Run) -> None:
    fill(url, a=3, b=1)
    result = swath("lanes")
    assert (result.code, result.err) == (0, "")
    rows = sorted(line.split("\t") for line in result.out.splitlines())
    assert rows == [
        ["a", "3", "0", "ready", "0 (default)", "unlimited (default)"],
        ["b", "1", "0", "ready", "0 (default)", "unlimited (default)"],
    ]
    assert sorted(swath("lanes", "list").out.splitlines()) == sorted(result.out.splitlines())


def test_json_is_a_line_for_each_lane(url: str, swath: Run) -> None:
    fill(url, a=3, b=1)
    lanes = {lane["lane"]: lane for lane in swath("lanes", "--json").json_lines()}
    assert set(lanes) == {"a", "b"}
    assert set(lanes["a"]) == {
        "lane", "partition", "waiting", "in_flight", "visits", "ready_at", "min_interval", "concurrency", "overrides",
        "paused", "blocked_until", "counters", "state",
    }  # fmt: skip
    assert (lanes["a"]["waiting"], lanes["a"]["state"], lanes["a"]["paused"]) == (3, "ready", False)


@sqlite_only
def test_limit_and_filters(url: str, swath: Run) -> None:
    fill(url, a=1, b=1, c=1)
    assert len(swath("lanes", "--limit", "2").out.splitlines()) == 2
    for more in ((), ("--json",)):
        assert swath("lanes", "--limit", "2", *more).err == "the first 2; --limit 0 lists all\n"
        assert swath("lanes", "-n", "0", *more).err == ""
    assert len(swath("lanes", "-n", "0").out.splitlines()) == 3
    swath("pause", "a")
    swath("lanes", "block", "b", "--for", "10m")
    swath("lanes", "set", "empty", "--concurrency", "1", "--create")

    def names(*args: str) -> set[str]:
        return {lane["lane"] for lane in swath("lanes", *args, "--json").json_lines()}

    assert names("--paused") == {"a"}
    assert names("--blocked") == {"b"}
    assert names("--waiting") == {"a", "b", "c"}
    assert names() == {"a", "b", "c", "empty"}
    assert names("--paused", "--blocked") == set()


@sqlite_only
def test_lane_returns_one_lane(url: str, swath: Run) -> None:
    fill(url, a=2)
    assert swath("lanes", "a").facts()["waiting"] == "2"
    assert swath("lanes", "list", "a", "--json").json()["waiting"] == 2
    missing = swath("lanes", "b")
    assert (missing.code, missing.out) == (1, "")
    assert "lane 'b' does not exist" in missing.err


def test_set_and_default(url: str, swath: Run) -> None:
    fill(url, a=2)
    data = swath("lanes", "set", "a", "--min-interval", "1.5", "--concurrency", "3", "--json").json()
    assert (data["min_interval"], data["concurrency"], data["overrides"]) == (1.5, 3, ["concurrency", "min_interval"])
    facts = swath("lanes", "set", "a", "--concurrency", "default").facts()
    assert (facts["min_interval"], facts["concurrency"]) == ("1.5", "unlimited (default)")
    data = swath("lanes", "set", "a", "--min-interval", "default", "--json").json()
    assert (data["min_interval"], data["concurrency"], data["overrides"]) == (0.0, None, [])


def test_defaults_are_shown_and_changed(url: str, swath: Run) -> None:
    fill(url, a=2)
    assert swath("lanes", "defaults", "--json").json() == {"min_interval": 0.0, "concurrency": None, "max_attempts": 5}
    changed = swath("lanes", "defaults", "--min-interval", "2m", "--max-attempts", "9").facts()
    assert changed == {"min_interval": "120", "concurrency": "unlimited", "max_attempts": "9"}
    assert swath("lanes", "a").facts()["min_interval"] == "120 (default)"


def test_block_and_unblock(url: str, swath: Run) -> None:
    fill(url, a=2)
    data = swath("lanes", "block", "a", "--for", "10m", "--json").json()
    assert data["state"] == "blocked"
    ahead = datetime.fromisoformat(data["blocked_until"]) - datetime.now(UTC)
    assert timedelta(minutes=9) < ahead < timedelta(minutes=11)
    assert on(url, lambda frontier: frontier.claim()) is None
    data = swath("lanes", "block", "a", "--until", "2999-01-01T00:00:00Z", "--json").json()
    assert data["blocked_until"] == "2999-01-01T00:00:00+00:00"
    assert "blocked until 2999-01-01" in swath("lanes", "a").facts()["state"]
    assert swath("lanes", "unblock", "a", "--json").json()["state"] == "ready"
    assert swath("lanes", "unblock", "nobody").code == 1


@sqlite_only
@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("set", "a"), "nothing to set"),
        (("set", "a", "--min-interval", "soon"), "is not a duration"),
        (("set", "a", "--min-interval", "-3"), "is not a duration"),
        (("set", "a", "--concurrency", "some"), "is not a whole number"),
        (("set", "a", "--concurrency", "-3"), "pass a whole number from 1"),
        (("set", "a\x07", "--concurrency", "1"), "control characters"),
        (("set", "", "--concurrency", "1"), "the lane is empty"),
        (("block", "a"), "give either --for TIME or --until TIME"),
        (("block", "a", "--for", "1s", "--until", "2999-01-01T00:00Z"), "give either --for TIME or --until TIME"),
        (("block", "a", "--until", "2999-01-01T00:00"), "no time zone"),
        (("--limt", "5"), "--limit"),
        (("a", "--waiting"), "--waiting cannot be combined with a lane"),
        (("a", "--paused", "--blocked"), "--paused, --blocked cannot be combined"),
        (("work.db", "a", "b"), "give at most a store and a lane"),
        (("list", "a", "--limit", "100"), "--limit cannot be combined"),
    ],
)
def test_wrong_ways(url: str, swath: Run, args: tuple[str, ...], complaint: str) -> None:
    fill(url, a=1)
    result = swath("lanes", *args)
    assert result.code == 2, result
    assert complaint in result.words


def test_states() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    past, future = now - timedelta(seconds=5), now + timedelta(seconds=5)
    lane = LaneInfo("a", 0, 0.0, None, frozenset(), False, None, 1, 0, 0, past, None)

    assert get_state(lane, now) == "ready"
    assert get_state(replace(lane, ready_at=future), now) == "resting"
    assert describe_state(replace(lane, ready_at=future), now) == "ready in 5 s"
    assert describe_state(lane, now) == "ready"
    assert get_state(replace(lane, ready_at=now), now) == "ready"
    assert get_state(replace(lane, blocked_until=now), now) == "ready"
    assert get_state(replace(lane, ready_at=None, in_flight=1), now) == "busy"
    assert get_state(replace(lane, waiting=0, ready_at=None), now) == "empty"
    assert get_state(replace(lane, ready_at=future, blocked_until=future), now) == "blocked"
    assert describe_state(replace(lane, blocked_until=future), now) == "blocked until 2030-01-01 00:00:05 UTC"
    assert get_state(replace(lane, waiting=0, ready_at=None, blocked_until=future), now) == "blocked"
    assert get_state(replace(lane, ready_at=None, paused=True), now) == "paused"
