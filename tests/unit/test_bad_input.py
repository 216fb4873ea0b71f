"""What cannot be stored is refused before anything is changed, on every store."""

import json
import pickle
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import pytest_asyncio

import swath
from swath import Claim, Frontier, InvalidItem, InvalidOutcome, InvalidSetting, Item, UsageError
from swath.core.encoding import decode_items
from swath.core.item import Outcome
from swath.core.store import OutputMove
from swath.core.validation import (
    MAX_JSON_DEPTH,
    MAX_LANE_BYTES,
    MAX_OUTPUT_NAME_BYTES,
    MAX_PAYLOAD_BYTES,
    MAX_RESULT_BYTES,
    MAX_SPAN,
)

AFTER_ALL = datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))
BEFORE_ALL = datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))


@pytest_asyncio.fixture
async def frontier(any_store: str) -> AsyncIterator[Frontier]:
    async with swath.open(any_store, partitions=2) as frontier:
        yield frontier


def nested(levels: int, *, beside: Any = None) -> Any:
    """Lists and mappings by turns."""
    value: Any = []
    for level in range(1, levels):
        value = {"in": value} if level % 2 else [beside, value]
    return value


NO_ITEMS: list[tuple[Any, str]] = [
    ("", "the key is empty"),
    ("k" * 1_000_000, "has 1,000,000 bytes, the limit is 8,192"),
    ("é" * 5_000, "has 10,000 bytes, the limit is 8,192"),
    ("caf\udcff", "cannot be encoded as UTF-8"),
    ("a\0b", "has a NUL character"),
    (b"a", "is not an item: pass a swath.Item or a key"),
    (Item(b"a"), "is of type bytes: pass a str"),  # type: ignore[arg-type]
    (Item("k", lane="a\nb"), "has control characters"),
    (Item("k", lane="\x1b[2J"), "has control characters"),
    (Item("k", lane="caf\udcff"), "cannot be encoded as UTF-8"),
    (Item("k", lane="a\0b"), "has a NUL character"),
    (Item("k", lane="x" * (MAX_LANE_BYTES + 1)), "has 513 bytes, the limit is 512"),
    (Item("k", lane=7), "is of type int: pass a str"),  # type: ignore[arg-type]
    (Item("k", payload=object()), "payload of 'k' cannot be encoded as JSON"),
    (Item("k", payload=float("nan")), "payload of 'k' cannot be encoded as JSON"),
    (Item("k", payload={"deep": [float("-inf")]}), "payload of 'k' cannot be encoded as JSON"),
    (Item("k", payload={(1, 2): 3}), "payload of 'k' cannot be encoded as JSON"),
    (Item("k", payload=nested(100_000)), "payload of 'k' is nested too deeply, the limit is 200 levels"),
    (Item("k", payload=nested(MAX_JSON_DEPTH + 1)), "payload of 'k' is nested too deeply, the limit is 200 levels"),
    (Item("k", payload=nested(900, beside={})), "payload of 'k' is nested too deeply, the limit is 200 levels"),
    (Item("k", payload="x" * MAX_PAYLOAD_BYTES), "has 262,146 bytes as JSON, the limit is 262,144"),
    (Item("k", priority=-1), "pass 0 to 7; higher is claimed first"),
    (Item("k", priority=8), "pass 0 to 7; higher is claimed first"),
    (Item("k", priority=2**70), "pass 0 to 7; higher is claimed first"),
    (Item("k", priority=3.0), "pass 0 to 7; higher is claimed first"),  # type: ignore[arg-type]
    (Item("k", priority=True), "pass 0 to 7; higher is claimed first"),
    (Item("k", span=0), "a whole number from 1 to"),
    (Item("k", span=-5), "a whole number from 1 to"),
    (Item("k", span=MAX_SPAN + 1), "a whole number from 1 to"),
    (Item("k", span=1.5), "a whole number from 1 to"),  # type: ignore[arg-type]
    (Item("k", not_before=datetime(2100, 1, 1)), "is not a datetime with a time zone"),  # noqa: DTZ001
    (Item("k", not_before=60), "is not a datetime with a time zone"),  # type: ignore[arg-type]
    (Item("k", not_before=AFTER_ALL), "is not a datetime with a time zone, before the year 10000"),
    (Item("k", not_before=BEFORE_ALL), "is not a datetime with a time zone"),
]


async def test_an_item_that_cannot_be_stored_is_not_added(frontier: Frontier) -> None:
    for wrong, complaint in NO_ITEMS:
        for given in (wrong, [wrong]):
            with pytest.raises(InvalidItem) as error:
                await frontier.add(given)
            assert complaint in str(error.value)
            assert len(str(error.value)) < 1_000, "a long text is not repeated"
            assert error.value.added == 0
    status = await frontier.status()
    assert (status.waiting, status.lanes, status.lag) == (0, 0, 0)

    assert await frontier.add(Item("k", payload="\udcff\0", priority=7, span=MAX_SPAN)) == 1
    claim = await claimed(frontier)
    assert claim.items[0].payload == "\udcff\0"
    await claim.settle([claim.items[0].done()])
    assert (await frontier.status()).done == 1


async def test_the_last_moment_there_is(frontier: Frontier) -> None:
    """It is kept to the microsecond, and can be told again."""
    last = datetime.max.replace(tzinfo=UTC)
    await frontier.add(Item("a", not_before=last))
    assert (await frontier.explain("a")).data["due_at"] == last.isoformat()
    assert (await frontier.status()).next_ready_at == last
    await frontier.block("far", until=last)
    await frontier.add(Item("b", lane="far"))
    assert "blocked until 9999-12-31 23:59:59 UTC" in (await frontier.explain("b")).sentence
    for until in (AFTER_ALL, BEFORE_ALL):
        with pytest.raises(UsageError, match="not a datetime with a time zone"):
            await frontier.block("far", until=until)


async def test_of_equal_items_the_first_counts(frontier: Frontier) -> None:
    twice = [Item("a", payload=1), Item("b", payload=1), Item("a", payload=2)]
    assert await frontier.add(twice) == 2
    claim = await claimed(frontier)
    assert {item.key: item.payload for item in claim.items} == {"a": 1, "b": 1}
    found = [Item("c", payload=1), Item("c", payload=2)]
    await claim.settle([item.done(discovered=found) for item in claim.items])
    assert [item.payload for item in (await claimed(frontier)).items] == [1]


async def test_what_is_as_deep_as_can_be_is_read_again(frontier: Frontier) -> None:
    """By somebody who has used much of the stack."""
    payloads = [
        nested(MAX_JSON_DEPTH),
        nested(MAX_JSON_DEPTH, beside=[{}, '"[{\\', {"]": "["}]),
        [{"[" * 300: ['"', "\\" * 3, "{[" * 300]}],
        [{"wide": [number]} for number in range(1_000)],
    ]
    assert await frontier.add([Item(f"k{n}", payload=payload) for n, payload in enumerate(payloads)]) == len(payloads)
    claim = await claimed(frontier)

    def deep(levels: int) -> list[Any]:
        return deep(levels - 1) if levels else [item.payload for item in decode_items(stored)]

    stored = [item._replace(payload=json.dumps(item.payload)) for item in claim.items]
    assert sorted(map(json.dumps, deep(500))) == sorted(map(json.dumps, payloads))
    await claim.settle([item.done(result=item.payload) for item in claim.items])


NO_OUTCOMES: list[tuple[Callable[[Item], Outcome], type[swath.UsageError], str]] = [
    (lambda item: item.done(result=object()), InvalidItem, "result of 'b' cannot be encoded as JSON"),
    (lambda item: item.done(result=float("nan")), InvalidItem, "result of 'b' cannot be encoded as JSON"),
    (lambda item: item.done(result="x" * MAX_RESULT_BYTES), InvalidItem, "the limit is 65,536"),
    (lambda item: item.done(result=nested(MAX_JSON_DEPTH + 1)), InvalidItem, "result of 'b' is nested too deeply"),
    (lambda item: item.done(discovered=[Item("n", payload=nested(980))]), InvalidItem, "of 'n' is nested too deeply"),
    (lambda item: item.done(facts={"new": nested(980)}), InvalidItem, "fact of 'new' is nested too deeply"),
    (lambda item: item.split(at=nested(MAX_JSON_DEPTH)), InvalidItem, "payload of 'b' is nested too deeply"),
    (lambda item: item.done(revisit_after=-1), InvalidOutcome, "revisit_after=-1"),
    (lambda item: item.done(discovered=["new", "a\0b"]), InvalidItem, "has a NUL character"),
    (lambda item: item.done(discovered=["new", Item("n", span=0)]), InvalidItem, "span 0 of 'n'"),
    (lambda item: item.done(facts={"new": 1, "": 2}), InvalidItem, "the key is empty"),
    (lambda item: item.done(facts={"new": 1, "x" * 2_001: 2}), InvalidItem, "the limit is 2,000: use a digest"),
    (lambda item: item.done(facts={"new": object()}), InvalidItem, "fact of 'new' cannot be encoded as JSON"),
    (lambda item: item.retry(after=float("inf")), InvalidOutcome, "after=inf"),
    (lambda item: item.release(after=-1), InvalidOutcome, "after=-1"),
    (lambda item: item.split(at=1), InvalidOutcome, "split of 'b' at 1 leaves one part empty: return done() instead"),
    (lambda item: item.split(at=9), InvalidOutcome, "split of 'b' at 9 leaves one part empty: return done() instead"),
    (lambda item: item._replace(payload={"hi": 9}).split(at=5), InvalidOutcome, "a mapping with `lo` and `hi`"),
    (lambda item: item._replace(payload={"lo": 1}).split(at=5), InvalidOutcome, "a mapping with `lo` and `hi`"),
    (lambda item: item._replace(payload=1).split(at=5), InvalidOutcome, "a mapping with `lo` and `hi`"),
    (lambda item: item.done(output=b""), InvalidOutcome, "the outcome of 'b' has an output, but nothing writes it"),
    (lambda item: item.dead(reason="no use", output="x"), InvalidOutcome, "has an output, but nothing writes it"),
    (lambda item: item.release(output="x"), InvalidOutcome, "has an output, but nothing writes it"),
]


async def test_an_outcome_that_cannot_be_stored_settles_nothing(frontier: Frontier) -> None:
    await frontier.add(["a", Item("b", payload={"lo": 1, "hi": 9})])
    claim = await claimed(frontier)
    a, b = claim.items
    for wrong, kind, complaint in NO_OUTCOMES:
        with pytest.raises(kind) as error:
            await claim.settle([a.done(discovered=["new"], facts={"new": 1}), wrong(b)])
        assert complaint in str(error.value)
        status = await frontier.status()
        assert (status.claimed, status.done, status.waiting, claim.remaining) == (2, 0, 2, 2)
    assert (await frontier.explain("new")).state == "unknown"
    assert await frontier.facts(["new"]) == {}

    await claim.settle([a.done(discovered=["new"]), b.done(result=1)])
    status = await frontier.status()
    assert (status.claimed, status.done, status.waiting, claim.remaining) == (0, 2, 1, 0)


NO_OUTPUTS: list[tuple[Any, str]] = [
    (("x", 0, 1), "is not an OutputMove"),
    (OutputMove("", 0, 1), "a name is text"),
    (OutputMove("a\0b", 0, 1), "a name is text"),
    (OutputMove("caf\udcff", 0, 1), "a name is text"),
    (OutputMove("x" * (MAX_OUTPUT_NAME_BYTES + 1), 0, 1), "a name is text of 1 to 2,000 bytes"),
    (OutputMove(7, 0, 1), "a name is text"),  # type: ignore[arg-type]
    (OutputMove("x", 0, 2**63), "has the lengths .*: pass whole numbers"),
    (OutputMove("x", -1, 1), "has the lengths .*: pass whole numbers"),
    (OutputMove("x", 0, 1.5), "has the lengths .*: pass whole numbers"),  # type: ignore[arg-type]
]


async def test_an_output_that_cannot_be_stored_settles_nothing(frontier: Frontier) -> None:
    """And the claim can be settled afterwards: nothing was sent whose reply would have to be looked up."""
    await frontier.add("k")
    claim = await frontier.claim()
    assert claim is not None
    for output, message in NO_OUTPUTS:
        with pytest.raises(InvalidOutcome, match=message):
            await claim.settle([claim.items[0].done()], outputs=[output])
    for second in (OutputMove("x", 5, 9), OutputMove("x", 0, 9)):
        with pytest.raises(InvalidOutcome, match="appears twice"):
            await claim.settle([claim.items[0].done()], outputs=[OutputMove("x", 0, 5), second])
    await claim.settle([claim.items[0].done()], outputs=[OutputMove("é" * 1_000, 0, 2**63 - 1)])
    assert await frontier.outputs() == {"é" * 1_000: 2**63 - 1}


@pytest.mark.parametrize("worker", [7, "a\0b", "caf\udcff", "a\nb", "x" * 513])
def test_a_worker_that_cannot_be_named_is_refused(any_store: str, worker: Any) -> None:
    with pytest.raises(InvalidSetting, match=r"worker=.*: pass printable text of at most 512 characters"):
        swath.open(any_store, worker=worker)


async def test_an_item_twice_in_a_settlement_settles_nothing(frontier: Frontier) -> None:
    await frontier.add(["a", "b"])
    claim = await claimed(frontier)
    a, b = claim.items
    with pytest.raises(InvalidOutcome, match="'b' has two outcomes in one settlement"):
        await claim.settle([a.done(), b.done(), b.retry()])
    assert ((await frontier.status()).claimed, claim.remaining) == (2, 2)
    await claim.settle([a.done(), b.done()])
    with pytest.raises(InvalidOutcome, match="does not hold 'b': it was settled before"):
        await claim.settle([b.done()])
    assert ((await frontier.status()).done, claim.remaining) == (2, 0)


async def test_an_item_of_another_frontier_settles_nothing(frontier: Frontier) -> None:
    """Though it has the same place there."""
    await frontier.add(["a", "b"])
    claim = await claimed(frontier)
    async with swath.open("memory:", partitions=frontier._store.settings.partitions) as other:
        await other.add(["c", "d"])
        c, d = (await claimed(other)).items
    a, b = claim.items
    assert (c.partition, c.position) == (a.partition, a.position)
    for foreign in (d.done(), d.dead(reason="no use")):
        with pytest.raises(InvalidOutcome, match=r"does not hold 'd': .* or belongs to another claim"):
            await claim.settle([a.done(), foreign])
    assert ((await frontier.status()).claimed, claim.remaining) == (2, 2)
    await claim.settle([pickle.loads(pickle.dumps(a.done())), b.done()])  # as from another process
    assert (await frontier.status()).done == 2


async def test_an_item_of_another_claim_settles_nothing(frontier: Frontier) -> None:
    await frontier.add(["a", "b"])
    mine, other = await claimed(frontier, 1), await claimed(frontier, 1)
    with pytest.raises(InvalidOutcome, match=r"does not hold '.': .* or belongs to another claim"):
        await mine.settle([mine.items[0].done(), other.items[0].done()])
    assert ((await frontier.status()).claimed, mine.remaining, other.remaining) == (2, 1, 1)
    for claim in (mine, other):
        await claim.settle([claim.items[0].done()])
    assert (await frontier.status()).done == 2


async def claimed(frontier: Frontier, limit: int = 100) -> Claim:
    claim = await frontier.claim(limit)
    assert claim is not None
    return claim
