"""Facts: every worker can read them, and they commit with the settlement that carries them (INV-5)."""

import pytest

from swath.conformance.trial import Conformance, Start, done
from swath.core.errors import LeaseLost
from swath.core.store import ADD_CHUNK, Fact


class Facts(Conformance):
    async def test_facts_of_an_empty_frontier(self, start: Start) -> None:
        trial = await start()
        assert await trial.store.facts(["a"]) == {}
        assert await trial.store.facts([]) == {}

    async def test_learn_replaces_the_value_of_a_key(self, start: Start) -> None:
        trial = await start()
        await trial.store.learn([Fact("a", "1"), Fact("b", '"ü"')])
        await trial.store.learn([Fact("a", "[2]"), Fact("c", "null")])
        assert await trial.store.facts(["c", "a", "nothing", "b"]) == {"a": "[2]", "b": '"ü"', "c": "null"}
        assert await trial.store.facts(["b"]) == {"b": '"ü"'}

    async def test_learn_stores_a_full_chunk(self, start: Start) -> None:
        trial = await start()
        many = {f"key {n}": str(n) for n in range(ADD_CHUNK)}
        await trial.store.learn([Fact(*fact) for fact in many.items()])
        assert await trial.store.facts(list(many)) == many

    async def test_settle_stores_facts(self, start: Start) -> None:
        trial = await start()
        await trial.add("a", "b")
        await trial.store.learn([Fact("known", "1")])
        batch = await trial.claim()
        await batch.settle(done(batch["a"]), facts=[Fact("known", "2"), Fact("new", "3")])
        assert await trial.store.facts(["known", "new"]) == {"known": "2", "new": "3"}

    async def test_settle_that_is_refused_stores_no_facts(self, start: Start) -> None:
        """INV-2."""
        trial = await start()
        await trial.add("a")
        lost = await trial.claim(lease=30)
        trial.clock.advance(31)
        await trial.claim()
        with pytest.raises(LeaseLost):
            await lost.settle(done(lost["a"]), facts=[Fact("new", "1")])
        assert await trial.store.facts(["new"]) == {}
