"""Adding items: each new item is added once (INV-4, INV-7)."""

import asyncio

from swath.conformance.trial import Conformance, Start, dead, done, retry
from swath.core.store import ADD_CHUNK
from swath.core.validation import MAX_KEY_BYTES, MAX_LANE_BYTES, MAX_PAYLOAD_BYTES

ODD_TEXTS = [
    'it\'s "quoted" \\ and 100%s %(x)s :name ?1 $1',
    "söme ünïcode ☃ 🧵 \u202e",
    "tab\tand\nnewline\r\x01\x7f",
    " leading and trailing ",
    "NULL",
    "{1,2}",
    "k" * MAX_KEY_BYTES,
]


class Adds(Conformance):
    async def test_add_returns_how_many_were_new(self, start: Start) -> None:
        trial = await start()
        assert await trial.add("a", "b") == 2
        assert await trial.add("b", "c", "a") == 1
        assert await trial.store.add([]) == 0
        assert (await trial.status()).ready == 3

    async def test_add_deduplicates_keys_in_one_call(self, start: Start) -> None:
        trial = await start()
        assert await trial.add("a", "b", "a", "a") == 2
        assert sorted((await trial.claim()).keys) == ["a", "b"]
        assert (await trial.status()).end == 2, "a known key gets no position"

    async def test_add_skips_a_known_key_in_every_state(self, start: Start) -> None:
        """INV-7: a known item is not added again, even after it is done."""
        trial = await start()
        keys = ["done", "dead", "retried", "revisited", "claimed"]
        await trial.add(*keys, "ready")
        await trial.add("delayed", after=10)
        batch = await trial.claim(5)
        assert batch.keys == keys
        await batch.settle(
            done(batch["done"]),
            dead(batch["dead"]),
            retry(batch["retried"], after=10),
            done(batch["revisited"], revisit=10),
        )
        before = await trial.take_snapshot(*keys, "ready", "delayed")
        assert await trial.add(*keys, "ready", "delayed") == 0
        assert await trial.take_snapshot(*keys, "ready", "delayed") == before
        assert (await trial.claim()).keys == ["ready"]

    async def test_add_accepts_the_same_key_in_another_lane(self, start: Start) -> None:
        trial = await start(partitions=4)
        lanes = [trial.lane(0), trial.lane(0, 1), trial.lane(3)]
        for lane in lanes:
            assert await trial.add("a", lane=lane) == 1
        batch = await trial.claim()
        assert sorted(item.lane for item in batch.items) == sorted(lanes)
        await batch.finish()
        for lane in lanes:
            assert await trial.add("a", lane=lane) == 0

    async def test_add_does_not_change_known_items(self, start: Start) -> None:
        trial = await start()
        await trial.store.add([trial.item("a", payload="1", priority=2)])
        await trial.store.add([trial.item("a", payload="2", priority=7, span=9, after=100)])
        item = (await trial.claim()).only
        assert (item.payload, item.priority, item.span) == ("1", 2, 1)

    async def test_add_stores_every_field(self, start: Start) -> None:
        trial = await start(partitions=3)
        big = '"' + "x" * (MAX_PAYLOAD_BYTES - 2) + '"'
        items = [
            trial.item("plain"),
            trial.item("payload", payload='{"lo":1,"hi":"\\u0000é"}', priority=0, span=1000),
            trial.item("big", lane="b" * MAX_LANE_BYTES, payload=big, priority=7),
            *(trial.item(text, lane=f"lane {n}'s") for n, text in enumerate(ODD_TEXTS)),
        ]
        assert await trial.store.add(items) == len(items)
        held = {item.key: item for batch in [await trial.claim() for _ in range(3)] for item in batch.items}
        for item in items:
            got = held.pop(item.key)
            assert (got.partition, got.lane, got.priority, got.payload, got.span, got.attempts) == (
                item.partition,
                item.lane,
                item.priority,
                item.payload,
                item.span,
                0,
            )
        assert held == {}

    async def test_add_allots_positions_in_order(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b")
        await trial.add("wide", span=10)
        await trial.add("c", lane="other", after=5)
        positions = [(await trial.find_only(key)).position for key in ("a", "b", "wide", "c")]
        assert positions == [1, 2, 3, 13]
        assert (await trial.status()).end == 13

    async def test_add_makes_an_empty_lane_ready(self, start: Start) -> None:
        """A claim takes items from a lane that was empty before."""
        trial = await start()
        for key in ("a", "b", "c"):
            await trial.add(key)
            batch = await trial.claim()
            assert batch.keys == [key]
            assert (await trial.claim()).keys == []
            await batch.finish()
            assert (await trial.claim()).keys == []

    async def test_add_accepts_a_full_chunk(self, start: Start) -> None:
        trial = await start(partitions=4)
        items = [trial.item(f"key{n}", lane=f"lane{n % 37}", priority=n % 8) for n in range(ADD_CHUNK)]
        assert await trial.store.add(items) == ADD_CHUNK
        assert await trial.total("ready") == ADD_CHUNK
        assert await trial.total("lanes") == 37
        assert await trial.store.add(items) == 0
        assert len((await trial.claim(ADD_CHUNK)).items) == ADD_CHUNK

    async def test_add_from_many_tasks_counts_each_key_once(self, start: Start) -> None:
        """Each key is new to exactly one of the tasks that add it."""
        trial = await start(partitions=2)
        loads = [[trial.item(f"key{n}", lane=f"lane{n % 5}") for n in range(k, k + 40)] for k in range(0, 80, 10)]
        added = await asyncio.gather(*(trial.store.add(load) for load in loads))
        assert sum(added) == len({item.key for load in loads for item in load}) == await trial.total("ready")
        places = [((found := await trial.find_only(f"key{n}")).partition, found.position) for n in range(110)]
        assert len(set(places)) == 110
