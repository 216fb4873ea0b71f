"""A client that stands still: it holds what it has claimed until its lease ends, and nothing else."""

import asyncio

import psycopg
import pytest

from swath.backends.postgres.format import FORMAT
from swath.backends.postgres.statements import FUNCTIONS
from swath.core.item import Item
from swath.core.store import Settings
from swath.frontier import Frontier
from tests.postgres.site import POLL_SECONDS, Site
from tests.recorder import PATIENCE

CLAIM = "SELECT * FROM {schema}.claim_{set}(%s, %s, %s, 60000000, 'stuck', 7, ARRAY[0::smallint], NULL, 4, 1000, 1000)"


async def answered(site: Site, pid: int) -> None:
    """Wait until a session has sent its reply, or as much of it as anybody takes."""
    while True:
        ((began, state, event),) = await site.sql(
            "SELECT query LIKE '%%.claim\\_%%', state, wait_event FROM pg_stat_activity WHERE pid = %s", pid
        )
        if began and (state != "active" or event == "ClientWrite"):
            return
        await asyncio.sleep(POLL_SECONDS)


@pytest.mark.parametrize(("items", "digits"), [(900, 500), (4_000, 4)], ids=["long keys", "short keys"])
async def test_a_client_that_does_not_read_its_reply_holds_no_partition(site: Site, items: int, digits: int) -> None:
    """The server sends a reply before it commits, and waits where the buffers on the way are full."""
    frontier = Frontier(await site.store())
    await frontier.add(Item(f"{number:0{digits}}", lane=f"{number % 100}") for number in range(items + 100))
    stuck = await site.connect()
    statement = site.location.fill(FUNCTIONS.fill(CLAIM)) % (FORMAT, site.clock.now(), items)
    stuck.pgconn.send_query_params(statement.encode(), None, result_format=psycopg.pq.Format.BINARY)
    stuck.pgconn.flush()
    async with asyncio.timeout(PATIENCE):
        await answered(site, stuck.info.backend_pid)
    claim, reply = await frontier._claimer.claim(1_000, lease=60)
    assert reply.skipped == []
    assert claim is not None
    assert len(claim.items) == 100
    site.clock.advance(61)
    taken_over, reply = await frontier._claimer.claim(10, lease=60)
    assert taken_over is not None
    assert reply.recovered == items + 100


async def test_a_large_claim_has_all_that_a_small_one_has(site: Site) -> None:
    frontier = Frontier(await site.store(partitions=3))
    text = "x" * 1_000
    added = [Item(f"key{n}", lane=f"lane{n % 40}", priority=n % 8, payload=[n, text]) for n in range(400)]
    await frontier.add(added)
    claim = await frontier.claim(400)
    assert claim is not None
    found = {item.key: item for item in claim.items}
    assert len(found) == len(claim.items) == 400
    for item in added:
        same = found[item.key]
        assert (same.lane, same.priority, same.payload) == (item.lane, item.priority, item.payload)
    priorities = [item.priority for item in claim.items]
    assert priorities == sorted(priorities, reverse=True)
    await claim.settle([item.done() for item in claim.items])
    assert (await frontier.status()).done == 400


async def test_a_large_claim_says_what_is_in_flight_beside_each_item(site: Site) -> None:
    """In a lane in which nothing else is, one of them is alone."""
    frontier = Frontier(await site.store(Settings(1, concurrency=5)))
    await frontier.add(Item(f"key{n}", payload="x" * 40_000) for n in range(5))
    first = await frontier.claim(2)
    assert first is not None
    assert [item.lane_in_flight for item in first.items] == [0, 1]
    second = await frontier.claim(3)
    assert second is not None
    assert [item.lane_in_flight for item in second.items] == [2, 3, 4]
