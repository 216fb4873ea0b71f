"""The public API: its names, the types in its signatures, and values in seconds, datetimes and decoded JSON."""

import inspect
import re
import types
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

import swath
import swath.crawl
import swath.scan
import swath.sync
from swath.crawl import Crawler, OutgoingRequest, Page, Request
from swath.scan import FileRecord, Finding

PUBLIC_CLASSES = (swath.Frontier, swath.Claim, swath.Item, swath.Opening, swath.Stop, swath.ManualClock)


def test_all_names_are_there_and_no_others_are_public() -> None:
    public = {
        name
        for name, value in vars(swath).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public | {"events"} == set(swath.__all__)


def test_every_public_class_and_function_is_documented() -> None:
    for name in swath.__all__:
        value = getattr(swath, name)
        if isinstance(value, type | types.FunctionType | types.ModuleType):
            assert inspect.getdoc(value), name


def test_the_version_is_the_packages() -> None:
    from importlib.metadata import version

    assert version("swath") == swath.__version__


def public_methods(owner: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, value in vars(owner).items():
        function = value.fget if isinstance(value, property) else value
        if not name.startswith("_") and isinstance(function, types.FunctionType):
            yield f"{owner.__name__}.{name}", function


def swath_types(hint: Any) -> Iterator[type]:
    """Yield the classes of swath that an annotation mentions."""
    if isinstance(hint, type) and get_origin(hint) is None:
        if hint.__module__.startswith("swath"):
            yield hint
        return
    for part in get_args(hint):
        for inner in part if isinstance(part, list) else [part]:
            yield from swath_types(inner)


FUNCTIONS = [
    *[pair for owner in PUBLIC_CLASSES for pair in public_methods(owner)],
    *[
        (name, getattr(swath, name))
        for name in ("open", "migrate", "describe", "delete", "retry_while_unavailable", "stop_on_signals")
    ],
]


@pytest.mark.parametrize(("name", "function"), FUNCTIONS, ids=[name for name, _ in FUNCTIONS])
def test_every_type_in_a_public_signature_is_importable_from_swath(name: str, function: Callable[..., Any]) -> None:
    hints = get_type_hints(function, localns={name: getattr(swath, name) for name in swath.__all__})
    found = {kind for hint in hints.values() for kind in swath_types(hint)}
    missing = [kind.__qualname__ for kind in found if getattr(swath, kind.__name__, None) is not kind]
    assert missing == []


def test_the_test_above_sees_the_types_inside_of_unions_and_iterators() -> None:
    hints = get_type_hints(swath.Frontier.lane)
    assert set(swath_types(hints["return"])) == {swath.LaneInfo}
    assert set(swath_types(get_type_hints(swath.Frontier.dead)["return"])) == {swath.DeadItem}
    assert set(swath_types(Union[list[swath.Item], None])) == {swath.Item}  # noqa: UP007


async def test_lanes_read_back_what_was_set() -> None:
    async with swath.open("memory:", min_interval=3, concurrency=2) as frontier:
        await frontier.limit("a", min_interval=1)
        lane = await frontier.lane("a")
        assert lane is not None
        assert (lane.min_interval, lane.concurrency, lane.overrides) == (1.0, 2, frozenset({"min_interval"}))
        assert (lane.blocked_until, lane.ready_at, lane.last_at, lane.counters) == (None, None, None, {})
        until = datetime(2100, 1, 1, tzinfo=UTC)
        await frontier.limit("a", min_interval="default", concurrency=None)
        await frontier.block("a", until=until)
        (lane,) = [lane async for lane in frontier.lanes()]
        assert (lane.min_interval, lane.concurrency, lane.overrides) == (3.0, None, frozenset({"concurrency"}))
        assert lane.blocked_until == until
        await frontier.configure(concurrency=None)
        assert (await frontier.status()).concurrency is None


@pytest.mark.parametrize(
    "given", [{}, {"until": datetime(2100, 1, 1, tzinfo=UTC), "seconds": 5}], ids=["neither", "both"]
)
async def test_a_block_takes_either_a_time_or_a_duration(given: dict[str, Any]) -> None:
    async with swath.open("memory:") as frontier:
        with pytest.raises(swath.UsageError, match="either until= or seconds="):
            await frontier.block("a", **given)


async def test_no_limit_is_none_and_not_zero() -> None:
    async with swath.open("memory:", concurrency=1) as frontier:
        for refused in (
            lambda: swath.open("memory:", concurrency=0),
            lambda: frontier.limit("a", concurrency=0),
            lambda: frontier.configure(concurrency=0),
        ):
            with pytest.raises(swath.InvalidSetting, match="or None for no limit"):
                await refused()
        assert (await frontier.status()).concurrency == 1


async def test_dead_and_pending_items_are_decoded() -> None:
    clock = swath.ManualClock()
    async with swath.open("memory:", clock=clock) as frontier:
        await frontier.add([swath.Item("a", payload={"n": 1}), swath.Item("b", payload=[2]), swath.Item("c")])
        claim = await frontier.claim(1)
        assert claim is not None
        await claim.settle([claim.items[0].dead(reason="broken", error="Traceback")])
        (dead,) = [item async for item in frontier.dead()]
        assert (dead.key, dead.payload, dead.reason, dead.error) == ("a", {"n": 1}, "broken", "Traceback")
        assert 0 <= (dead.settled_at - (await frontier.status()).now).total_seconds() < 0.001
        pending = [(item.key, item.payload, item.state) async for item in frontier.pending()]
        assert pending == [("b", [2], "ready"), ("c", None, "ready")]


async def test_encode_leaves_out_known_keys_and_add_takes_the_result() -> None:
    async with swath.open("memory:") as frontier:
        await frontier.add("a")
        encoded = frontier.encode(["a", swath.Item("b", payload=1), "b"])
        assert [item.key for item in encoded] == ["b"]
        assert [item.key for item in frontier.encode("a", drop_known=False)] == ["a"]
        assert await frontier.add(encoded) == 1
        assert frontier.encode(["a", "b"]) == []
        assert frontier.knows(encoded[0].hash)
        with pytest.raises(swath.InvalidItem):
            frontier.encode([""])


async def test_counters_commit_with_outcomes_and_are_summed() -> None:
    async with swath.open("memory:") as frontier:
        await frontier.add([swath.Item(key, lane=lane) for key, lane in ("ax", "bx", "cy", "dy")])
        claim = await frontier.claim()
        assert claim is not None
        items = {item.key: item for item in claim.items}
        await claim.settle(
            [
                items["a"].done(counters={"records": 5}, lane_counters={"pages": 1}),
                items["b"].dead(reason="no", counters={"records": 2, "bad": 1}, lane_counters={"pages": 2}),
                items["c"].release(counters={"records": -1}, lane_counters={"pages": 7}),
                items["d"].done(),
            ]
        )
        assert await frontier.counters() == {"records": 6, "bad": 1}
        assert {lane.lane: dict(lane.counters) async for lane in frontier.lanes()} == {
            "x": {"pages": 3},
            "y": {"pages": 7},
        }
        claim = await frontier.claim()
        assert claim is not None
        assert [dict(item.lane_counters) for item in claim.items] == [{"pages": 7}]


@pytest.mark.parametrize(
    ("counters", "complaint"),
    [
        ([("a", 1)], "is not a mapping"),
        ({"": 1}, "the name '' is not printable text"),
        ({"a\n": 1}, "is not printable text"),
        ({"é" * 101: 1}, "is not printable text of 1 to 200 bytes"),
        ({7: 1}, "the name 7 is not printable text"),
        ({"a": 1.5}, "'a' is 1.5, not a whole number"),
        ({"a": True}, "'a' is True, not a whole number"),
        ({"a": 2**53}, "not a whole number"),
        ({"a": -(2**53)}, "not a whole number"),
    ],
)
@pytest.mark.parametrize("name", ["counters", "lane_counters"])
@pytest.mark.parametrize("how", ["done", "dead", "release"])
async def test_invalid_counters_settle_nothing(how: str, name: str, counters: Any, complaint: str) -> None:
    async with swath.open("memory:") as frontier:
        await frontier.add("a")
        claim = await frontier.claim()
        assert claim is not None
        reason = {"reason": "x"} if how == "dead" else {}
        with pytest.raises(swath.InvalidOutcome) as error:
            await claim.settle([getattr(claim.items[0], how)(**reason, **{name: counters})])
        assert complaint in str(error.value)
        assert re.match(rf"{name}(?:=.*)? of 'a'", str(error.value))
        assert claim.remaining == 1
        assert await frontier.counters() == {}


async def test_a_revisit_may_have_a_new_payload() -> None:
    clock = swath.ManualClock()
    async with swath.open("memory:", clock=clock) as frontier:
        await frontier.add(swath.Item("a", payload={"seen": 0}))
        payloads: list[Any] = []
        for given in ({"payload": {"seen": 1}}, {}, {"payload": None}, {}):
            claim = await frontier.claim()
            assert claim is not None
            payloads.append(claim.items[0].payload)
            await claim.settle([claim.items[0].done(revisit_after=60, **given)])
            clock.advance(61)
        assert payloads == [{"seen": 0}, {"seen": 1}, {"seen": 1}, None]
        claim = await frontier.claim()
        assert claim is not None
        with pytest.raises(swath.InvalidOutcome, match=r"payload=….* without revisit_after"):
            await claim.settle([claim.items[0].done(payload=1)])


async def test_rows_without_a_sink_are_refused() -> None:
    async with swath.open("memory:") as frontier:
        await frontier.add("a")
        claim = await frontier.claim()
        assert claim is not None
        with pytest.raises(swath.InvalidOutcome, match="has rows, but nothing stores them"):
            await claim.settle([claim.items[0].done(rows=[(1, "x")])])


DEFAULTS: dict[Callable[..., Any], dict[str, Any]] = {
    swath.open: {"create": True},
    swath.stop_on_signals: {"in_loop_thread": True},
    swath.Frontier.encode: {"drop_known": True},
    swath.Frontier.claim: {"limit": 100, "lease": 60.0},
    swath.Frontier.run: {"workers": 100, "lease": 60.0, "grace": 10.0, "until": "done", "handle_signals": True},
    swath.Frontier.block: {"at_least": False},
    swath.Frontier.drop: {"reason": "by frontier.drop()"},
    swath.Frontier.pending: {"revisits": False},
    swath.Item.done: {"started": True},
    swath.Item.dead: {"started": True},
    swath.Item.release: {"started": True},
    Crawler.__init__: {"handler_timeout": 60.0, "start_timeout": 600.0, "page_memory": 256_000_000},
    Crawler.handler: {"version": 1},
    Crawler.default: {"version": 1},
    Crawler.error: {"version": 1},
    Crawler.choose: {"status": 200},
    Page.from_html: {"url": "https://example.com/", "status": 200, "depth": 0, "method": "GET"},
    Page.retry: {"reason": "the handler asked for it"},
    Page.__init__: {"depth": 0, "attempts": 0, "method": "GET", "limit": 50_000_000},
    Page.from_warc: {"depth": 0},
    OutgoingRequest.__init__: {"method": "GET"},
    Request.__init__: {"method": "GET", "any_host": False},
    swath.Frontier.limit: {"audit": True},
    swath.Frontier.reopen_done: {"audit": True},
    swath.Frontier.audit: {"limit": 100},
    swath.Frontier.rank_lanes: {"limit": 100, "seconds": 2.0},
    swath.Frontier.items: {"limit": 100},
    swath.Item.retry: {"reason": "retry"},
    swath.DeadItem.__init__: {"state": "dead"},
    swath.DoneItem.__init__: {"state": "done"},
    swath.PendingItem.__init__: {"revisit": False},
    swath.ManualClock.__init__: {"start": 1_000_000_000_000},
    swath.RunMonitor.__init__: {"noun": "item", "handler": "handler"},
    FileRecord.__init__: {"kind": "file", "size": 0},
    FileRecord.open: {"mode": "rb"},
    Finding.__init__: {"message": ""},
}


def list_defaults(function: Callable[..., Any]) -> dict[str, Any]:
    given = {name: one.default for name, one in inspect.signature(function).parameters.items()}
    return {name: value for name, value in given.items() if type(value) in (int, float, bool, str)}


def test_the_defaults_of_all_public_functions_are_listed() -> None:
    """Those of `swath.sync` are generated, and only backends implement `Store`."""
    found: list[Callable[..., Any]] = []
    for module in (swath, swath.crawl, swath.scan):
        for value in (getattr(module, name) for name in module.__all__ if name != "Store"):
            if inspect.isfunction(value):
                found.append(value)
            elif inspect.isclass(value):
                names = [name for name in vars(value) if name == "__init__" or not name.startswith("_")]
                found += [function for name in names if inspect.isroutine(function := getattr(value, name))]
    assert [function.__qualname__ for function in found if list_defaults(function) and function not in DEFAULTS] == []


@pytest.mark.parametrize("function", DEFAULTS, ids=lambda function: function.__qualname__)
def test_the_defaults_of_arguments_are_those_that_users_rely_on(function: Callable[..., Any]) -> None:
    """Most are in the documentation. A changed one changes programs that leave it out."""
    assert list_defaults(function) == DEFAULTS[function]


def test_sync_has_the_same_methods() -> None:
    for mine, theirs in ((swath.Frontier, swath.sync.Frontier), (swath.Claim, swath.sync.Claim)):
        assert {name for name in vars(mine) if not name.startswith("_")} == {
            name for name in vars(theirs) if not name.startswith("_")
        }


def test_sync_returns_the_same_values() -> None:
    with swath.sync.open("memory:") as frontier:
        assert frontier.add(frontier.encode(["a", "b"])) == 2
        assert frontier.encode(iter(["a", "c"]))[0].key == "c"
        frontier.limit("default", min_interval=1)
        lane = frontier.lane("default")
        assert lane is not None
        assert lane.min_interval == 1.0
        frontier.block("default", seconds=60)
        frontier.block("default", seconds=0)
        frontier.run(lambda item: item.done(result=1, counters={"n": 1}) if item.key == "a" else item.dead(reason="no"))
        assert frontier.counters() == {"n": 1}
        (dead,) = frontier.dead()
        assert isinstance(dead, swath.DeadItem)
        assert frontier.reopen_dead(key for key in ["b"]) == 1
        (done,) = frontier.results()
        assert isinstance(done, swath.DoneItem)
        assert (done.key, done.result) == ("a", 1)
        assert frontier.reopen_done((key for key in ["a"]), result_key="n") == 0
