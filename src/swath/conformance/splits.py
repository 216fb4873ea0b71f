"""Splits: the first part of a range is done, and the rest can be claimed (INV-4, INV-6)."""

import pytest

from swath.conformance.trial import Conformance, Start, done, release, retry, split
from swath.core.errors import InvalidOutcome


class Splits(Conformance):
    async def test_settle_split(self, start: Start) -> None:
        trial = await start()
        await trial.add("range", span=9)
        await trial.add("next")
        batch = await trial.claim(1)
        move = split(batch.only, 1, rest="rest", payload='{"hi":5}', rest_payload='{"lo":5}', result="7")
        reply = await batch.settle(move)
        assert reply.checkpoint == 4, "the first part keeps the positions 1 to 4"
        found = await trial.find_only("range")
        assert (found.state, found.position, found.payload, found.result) == ("done", 1, '{"hi":5}', "7")
        rest = await trial.find_only("rest")
        assert (rest.state, rest.position, rest.payload, rest.attempts) == ("ready", 5, '{"lo":5}', 0)
        status = await trial.status()
        assert (status.end, status.ready, status.done) == (10, 2, 1)

    async def test_settle_split_lets_others_claim_the_rest(self, start: Start) -> None:
        trial = await start()
        await trial.add("range", span=8)
        batch = await trial.claim()
        await batch.settle(split(batch.only, 1, rest="rest"))
        other = await trial.claim()
        assert (other.keys, other.only.position, other.only.span) == (["rest"], 5, 4)
        assert (await other.finish()).checkpoint == 8

    async def test_settle_split_again_and_again(self, start: Start) -> None:
        """Positions stay within the range down to span 1, and the checkpoint reaches its end."""
        trial = await start()
        await trial.add("range", span=10)
        for n, (position, span) in enumerate([(1, 10), (6, 5), (8, 3), (9, 2)]):
            batch = await trial.claim()
            assert (batch.only.position, batch.only.span) == (position, span)
            reply = await batch.settle(split(batch.only, 1, rest=f"rest{n}"))
            assert reply.checkpoint == position + span // 2 - 1
        batch = await trial.claim()
        assert (batch.only.position, batch.only.span) == (10, 1)
        assert (await batch.finish()).checkpoint == 10
        assert (await trial.status()).done == 5

    async def test_settle_split_at_span_one(self, start: Start) -> None:
        """A range of span 1 has no position for a second item, so the same item continues with the rest."""
        trial = await start()
        await trial.add("range", "next")
        batch = await trial.claim(1)
        move = split(batch.only, 1, rest="rest", payload='{"hi":5}', rest_payload='{"lo":5}')
        assert (await batch.settle(move)).checkpoint == 0
        assert list(await trial.find("rest")) == []
        again = await trial.claim(1)
        assert (again.keys, again.only.position, again.only.payload) == (["range"], 1, '{"lo":5}')
        status = await trial.status()
        assert (status.done, status.ready, status.claimed) == (0, 1, 1)

    async def test_settle_split_keeps_the_checkpoint_below_the_rest(self, start: Start) -> None:
        """INV-6: the checkpoint stays below the rest until the rest is settled, even if later items are."""
        trial = await start()
        await trial.add("range", span=100)
        await trial.add("next")
        one, two = await trial.claim(1), await trial.claim(1)
        assert (await two.finish()).checkpoint == 0
        assert (await one.settle(split(one.only, 1, rest="rest"))).checkpoint == 50
        rest = await trial.claim()
        await rest.settle(retry(rest.only, after=5))
        assert (await trial.status()).checkpoint == 50
        trial.clock.advance(6)
        assert (await (await trial.claim()).finish()).checkpoint == 101

    async def test_settle_split_refuses_a_rest_that_exists(self, start: Start) -> None:
        """INV-7: the settlement is refused if the rest exists already."""
        trial = await start()
        await trial.add("range", "there", span=4)
        batch = await trial.claim()
        before = await trial.take_snapshot("range", "there")
        with pytest.raises(InvalidOutcome):
            await batch.settle(done(batch["there"]), split(batch["range"], 1, rest="there"))
        assert await trial.take_snapshot("range", "there") == before
        await batch.settle(split(batch["range"], 1, rest="rest"))
        assert await trial.add("rest") == 0

    async def test_settle_split_of_a_retried_item(self, start: Start) -> None:
        trial = await start()
        await trial.add("range", span=4)
        batch = await trial.claim()
        await batch.settle(retry(batch.only, reason="once"))
        trial.clock.advance(1)
        batch = await trial.claim()
        await batch.settle(split(batch.only, 1, rest="rest"))
        found, rest = await trial.find_only("range"), await trial.find_only("rest")
        assert (found.state, found.attempts, found.reason) == ("done", 0, None)
        assert (rest.state, rest.attempts, rest.reason) == ("ready", 0, None)

    async def test_settle_split_in_a_paced_lane(self, start: Start) -> None:
        trial = await start(min_interval=10, concurrency=1)
        await trial.add("range", span=4)
        batch = await trial.claim()
        settled = await batch.settle(split(batch.only, 1, rest="rest"))
        assert (await trial.claim()).keys == []
        await trial.wait_until(settled.now + 10_000_000)
        assert (await trial.claim()).keys == ["rest"]

    async def test_settle_split_beside_others(self, start: Start) -> None:
        trial = await start()
        await trial.add("one", "two", span=4)
        await trial.add("three")
        batch = await trial.claim()
        reply = await batch.settle(
            split(batch["one"], 1, rest="rest1"),
            split(batch["two"], 1, rest="rest2"),
            release(batch["three"]),
            discovered=[trial.item("rest1"), trial.item("four")],
        )
        assert (reply.checkpoint, reply.discovered) == (2, 1)
        held = await trial.claim()
        assert {item.key: item.position for item in held.items} == {"rest1": 3, "rest2": 7, "three": 9, "four": 10}

    async def test_reopen_of_a_split_range(self, start: Start) -> None:
        """The first part is reopened with the positions that it kept."""
        trial = await start()
        await trial.add("range", span=10)
        batch = await trial.claim()
        await batch.settle(split(batch.only, 1, rest="rest", payload='{"hi":5}'))
        await (await trial.claim()).finish()
        assert await trial.store.reopen([(0, 1)]) == 1
        again = await trial.claim()
        assert (again.only.position, again.only.span, again.only.payload) == (11, 5, '{"hi":5}')
        assert (await again.finish()).checkpoint == 15
