"""A server without room (SQLSTATE 53100): the move says so and changes nothing, and goes through once there is some."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from swath.claim import Claim
from swath.conformance.trial import name_lane
from swath.core.errors import StoreFull, StoreUnavailable
from swath.core.item import Item, Outcome
from swath.core.store import Store
from swath.frontier import Frontier
from tests.postgres.lending import Losing
from tests.postgres.site import Site

# Under a table that this server has no room for, its own error is raised where it would be: in the middle of the move.
NO_ROOM = """
CREATE OR REPLACE FUNCTION {schema}.no_room() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
END
$$
"""


@asynccontextmanager
async def no_room_in(site: Site, table: str, event: str = "INSERT") -> AsyncIterator[None]:
    await site.sql(NO_ROOM)
    await site.sql(
        f"CREATE TRIGGER no_room AFTER {event} ON {{schema}}.{table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION {schema}.no_room()"
    )
    yield
    await site.sql(f"DROP TRIGGER no_room ON {{schema}}.{table}")


async def intact(store: Store) -> None:
    assert list(await store.recount()) == list((await store.status()).partitions)


async def claimed(frontier: Frontier) -> Claim:
    claim = await frontier.claim()
    assert claim is not None
    return claim


async def test_an_addition_without_room_adds_nothing(site: Site) -> None:
    frontier = Frontier(await site.store())
    for table in ("item", "seen", "partition_state"):
        async with no_room_in(site, table):
            with pytest.raises(StoreFull, match=r"no room left \(could not extend file: No space left on device\)"):
                await frontier.add(["a", "b"])
            assert (await frontier.status()).waiting == 0
            await intact(frontier._store)
    assert await frontier.add(["a", "b"]) == 2
    await intact(frontier._store)


async def test_a_claim_without_room_takes_nothing(site: Site) -> None:
    frontier = Frontier(await site.store())
    await frontier.add(["a", "b"])
    for table in ("claimed", "lane_state", "claim"):
        async with no_room_in(site, table):
            with pytest.raises(StoreFull):
                await frontier.claim()
            status = await frontier.status()
            assert (status.ready, status.claimed) == (2, 0)
            await intact(frontier._store)
    assert [item.key for item in (await claimed(frontier)).items] == ["a", "b"]
    await intact(frontier._store)


async def test_a_settlement_without_room_settles_nothing(site: Site) -> None:
    frontier = Frontier(await site.store(partitions=2))
    await frontier.add(["a", "b"])
    claim = await claimed(frontier)
    a, b = claim.items
    found = [Item("new", lane=f"lane{n}") for n in range(10)]
    outcomes: list[Outcome] = [a.done(discovered=found, facts={"new": 1}), b.dead(reason="no use")]
    for table in ("done", "dead", "item", "inbox", "fact"):
        async with no_room_in(site, table):
            with pytest.raises(StoreFull):
                await claim.settle(outcomes)
            status = await frontier.status()
            assert (status.claimed, status.waiting, claim.remaining) == (2, 2, 2)
            assert await frontier.facts(["new"]) == {}
            await intact(frontier._store)
    await claim.settle(outcomes)
    status = await frontier.status()
    assert (status.done, status.dead, status.waiting, claim.remaining) == (1, 1, 10, 0)
    assert await frontier.facts(["new"]) == {"new": 1}
    await intact(frontier._store)


async def test_a_settlement_without_room_in_its_second_partition_is_repeated(site: Site) -> None:
    frontier = Frontier(await site.store(partitions=2))
    await frontier.add([Item("a", lane=name_lane(0, 2)), Item("b", lane=name_lane(1, 2))])
    claim = await claimed(frontier)
    outcomes = [item.done() if item.key == "a" else item.dead(reason="no use") for item in claim.items]
    async with no_room_in(site, "dead"):
        with pytest.raises(StoreFull):
            await claim.settle(outcomes)
        assert claim.remaining == 1
    await claim.settle(outcomes)
    status = await frontier.status()
    assert (status.done, status.dead, claim.remaining) == (1, 1, 0)
    await intact(frontier._store)


async def test_a_claim_whose_answer_was_lost_is_looked_up_once_there_is_room(site: Site) -> None:
    """On a full disk the store cannot find out whether the claim was made."""
    connections = Losing(site.location.dsn)
    frontier = Frontier(await site.store(connections=connections))
    await frontier.add(["a", "b"])
    async with AsyncExitStack() as full:
        connections.meanwhile = lambda: full.enter_async_context(no_room_in(site, "claim"))
        with pytest.raises(StoreUnavailable, match="no room left"):
            await frontier.claim()
    assert [item.key for item in (await claimed(frontier)).items] == ["a", "b"]
    await intact(frontier._store)


async def test_a_settlement_whose_answer_was_lost_is_looked_up_once_there_is_room(site: Site) -> None:
    """The settlement took effect and is not sent again under another number."""
    connections = Losing(site.location.dsn)
    frontier = Frontier(await site.store(connections=connections))
    await frontier.add(["a", "b"])
    claim = await claimed(frontier)
    outcomes = [item.done() for item in claim.items]
    async with AsyncExitStack() as full:
        connections.meanwhile = lambda: full.enter_async_context(no_room_in(site, "claim", "UPDATE"))
        with pytest.raises(StoreUnavailable, match="no room left"):
            await claim.settle(outcomes)
        with pytest.raises(StoreFull):
            await claim.settle(outcomes)
    await claim.settle(outcomes)
    assert (await frontier.status()).done == 2
    assert claim.remaining == 0
    await intact(frontier._store)
