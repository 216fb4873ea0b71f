"""Listings: items by state and lane, and claims, page by page."""

from typing import Any

from swath.conformance.trial import LANE, Conformance, Start, Trial, dead, done, retry
from swath.core.store import ITEM_STATES, MAX_EXAMINED, ClaimRow, Cursor, ItemRow, RowPage


async def read_all(trial: Trial, state: str, *, limit: int = 100, **wanted: Any) -> list[ItemRow]:
    """Return the rows of all pages."""
    rows: list[ItemRow] = []
    after: Cursor | None = None
    while True:
        page = await trial.store.items(state, after=after, limit=limit, **wanted)
        assert len(page.rows) <= limit
        rows += page.rows
        after = page.after
        if after is None:
            return rows


class Listings(Conformance):
    async def test_items_have_the_values_of_their_state(self, start: Start) -> None:
        trial = await start()
        await trial.store.add([trial.item("done", payload="[1]", priority=6)])
        await trial.add("dead", "retried", "revisited", "claimed", "ready")
        await trial.add("later", after=10)
        batch = await trial.claim(5)
        reply = await batch.settle(
            done(batch["done"], result='{"a":1}'),
            dead(batch["dead"], reason="why", error="trace"),
            retry(batch["retried"], after=5, reason="busy", error="lines"),
            done(batch["revisited"], revisit=7, result="2"),
        )
        rows = {state: {row.key: row for row in await read_all(trial, state)} for state in ITEM_STATES}
        assert {state: sorted(found) for state, found in rows.items()} == {
            "ready": ["ready"],
            "delayed": ["later", "retried", "revisited"],
            "claimed": ["claimed"],
            "done": ["done"],
            "dead": ["dead"],
        }
        now = reply.now
        common = (0, LANE)
        assert rows["done"]["done"] == ItemRow(
            0, 1, "done", LANE, 6, "done", "[1]", 0, settled_at=now, result='{"a":1}'
        )
        assert rows["dead"]["dead"] == ItemRow(
            0, 2, "dead", LANE, 3, "dead", None, 1, settled_at=now, reason="why", error="trace"
        )
        retried, revisited, later = (rows["delayed"][key] for key in ("retried", "revisited", "later"))
        assert (retried.due_at, retried.attempts, retried.reason, retried.error) == (
            now + 5_000_000,
            1,
            "busy",
            "lines",
        )
        assert (revisited.due_at, revisited.settled_at, revisited.result) == (now + 7_000_000, now, "2")
        assert (retried.revisit, revisited.revisit, later.revisit) == (False, True, False)
        assert (later.due_at, later.settled_at) == ((await trial.find_only("later")).due_at, None)
        assert rows["claimed"]["claimed"].fence == batch.reply.fence
        assert all((row.partition, row.lane) == common for found in rows.values() for row in found.values())
        assert [rows[state][state].fence for state in ("ready", "done", "dead")] == [None] * 3

    async def test_items_page_by_page(self, start: Start) -> None:
        """Items are ordered by (partition, position), and claimed items by claim."""
        trial = await start(partitions=2)
        for state in ITEM_STATES:
            assert await trial.store.items(state) == RowPage([], None)

        async def add(state: str) -> None:
            for n in range(9):
                item = trial.item(f"{state}{n}", lane=trial.lane(n % 2), payload=f"[{n}]", priority=n % 8)
                await trial.store.add([item])

        for state in ("delayed", "done", "dead"):
            await add(state)
        batch = await trial.claim()
        for item in reversed(batch.items):
            move = {"delayed": retry(item, after=5), "done": done(item), "dead": dead(item)}[item.key[:-1]]
            await batch.settle(move, partition=item.partition)
        await add("claimed")
        for order in ([1], [0], [1], [0, 1]):
            await trial.claim(3, order=order)
        await add("ready")
        for state in ITEM_STATES:
            everything = await read_all(trial, state)
            assert sorted(row.key for row in everything) == [f"{state}{n}" for n in range(9)]
            for row in everything:
                n = int(row.key[-1])
                assert (row.lane, row.payload, row.priority) == (trial.lane(n % 2), f"[{n}]", n % 8)
            places = [(row.partition, row.fence or 0, row.position) for row in everything]
            assert places == sorted(places)
            for limit in (1, 2, 4, 9):
                assert await read_all(trial, state, limit=limit) == everything

    async def test_items_of_a_lane(self, start: Start) -> None:
        """Only items of the lane are returned, each once. Ready items are in the order in which they are claimed."""
        trial = await start(partitions=2)
        lane, other, elsewhere = trial.lane(1), trial.lane(1, 1), trial.lane(0)
        for n in range(12):
            await trial.store.add([trial.item(f"key{n}", lane=lane, priority=n % 3)])
        await trial.add("other", "another", lane=other, priority=7)
        await trial.add("elsewhere", "else", lane=elsewhere, priority=7)
        batch = await trial.claim(11)
        await batch.settle(
            *(retry(batch[key], after=5) for key in ("key2", "key5", "another")),
            done(batch["key8"], revisit=5),
            done(batch["key11"], result="1"),
            dead(batch["other"]),
            partition=1,
        )
        for state in ITEM_STATES:
            everything = await read_all(trial, state)
            for name, partition in ((lane, 1), (other, 1), (elsewhere, 0)):
                expected = {row for row in everything if row.lane == name}
                for limit in (1, 2, 5, 100):
                    rows = await read_all(trial, state, lane=(partition, name), limit=limit)
                    assert len(rows) == len(expected)
                    assert set(rows) == expected
            assert await read_all(trial, state, lane=(0, lane)) == []
            assert await read_all(trial, state, lane=(1, "unknown")) == []
        waiting = [row.key for row in await read_all(trial, "ready", lane=(1, lane))]
        assert waiting
        assert waiting == [key for key in (await trial.claim()).keys if key in waiting]

    async def test_done_items_with_a_text_in_the_result(self, start: Start) -> None:
        trial = await start(partitions=2)
        lanes = [trial.lane(0), trial.lane(1)]
        for n in range(6):
            await trial.add(f"key{n}", lane=lanes[n % 2])
        results = {"key0": '{"why":1}', "key3": '{"why":2}', "key5": '"why"'}
        batch = await trial.claim()
        for item in batch.items:
            await batch.settle(done(item, result=results.get(item.key)), partition=item.partition)
        for limit in (1, 2, 100):
            rows = await read_all(trial, "done", result_text='"why":', limit=limit)
            assert [row.key for row in rows] == ["key0", "key3"]
            rows = await read_all(trial, "done", result_text='"why":', lane=(1, lanes[1]), limit=limit)
            assert [row.key for row in rows] == ["key3"]

    async def test_items_reads_a_limited_number_of_rows(self, start: Start) -> None:
        """A page without a match has a cursor if there are more rows."""
        trial = await start()
        for chunk in range(0, MAX_EXAMINED + 5, 1_000):
            await trial.add(*(f"key{n}" for n in range(chunk, min(chunk + 1_000, MAX_EXAMINED + 5))), lane="other")
        await trial.add("last")
        while (batch := await trial.claim(2_000)).items:
            await batch.finish()
        page = await trial.store.items("done", lane=(0, LANE))
        assert page.rows == []
        assert page.after is not None
        page = await trial.store.items("done", lane=(0, LANE), after=page.after)
        assert ([row.key for row in page.rows], page.after) == (["last"], None)

    async def test_claims_lists_those_that_hold_items(self, start: Start) -> None:
        trial = await start(partitions=2)
        assert list(await trial.store.claims()) == []
        for n in range(9):
            await trial.add(f"key{n}", lane=trial.lane(n % 2))
        first, second, third = [
            await trial.claim(3, worker=f"worker {n}", lease=10 * n + 10, order=[0, 1] if n == 0 else [1, 0])
            for n in range(3)
        ]
        expected = [
            ClaimRow(batch.reply.fence, f"worker {n}", batch.reply.now, batch.reply.expires_at, 3)
            for n, batch in enumerate((first, second, third))
        ]
        assert list(await trial.store.claims()) == expected
        await second.settle(done(second.items[0]), partition=second.items[0].partition)
        await third.finish()
        expected = [expected[0], expected[1]._replace(items=2)]
        assert list(await trial.store.claims()) == expected
        assert list(await trial.store.claims(limit=1)) == expected[:1]
        assert list(await trial.store.claims(after=expected[0].fence)) == expected[1:]
        trial.clock.advance(15)
        renewed = await second.renew(60)
        await trial.claim(3, lease=5)
        found = {row.fence: row for row in await trial.store.claims()}
        assert first.reply.fence not in found
        assert found[second.reply.fence].expires_at == renewed
        assert sum(row.items for row in found.values()) == await trial.total("claimed")
