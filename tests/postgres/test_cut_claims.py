"""A claim whose reply is cut off after the server committed it: its items are neither lost nor handed out twice."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from swath.conformance.trial import LEASE, Batch, Trial
from swath.core.errors import StoreUnavailable
from tests.postgres.holding_proxy import HoldingProxy
from tests.postgres.site import POLL_SECONDS, Site
from tests.recorder import PATIENCE

CLAIMS = "SELECT fence FROM {schema}.claim"


@pytest_asyncio.fixture
async def proxy(site: Site) -> AsyncIterator[HoldingProxy]:
    async with HoldingProxy(site.url) as proxy:
        yield proxy


@pytest_asyncio.fixture
async def through(site: Site, proxy: HoldingProxy) -> AsyncIterator[Trial]:
    """The same frontier, as a worker behind the proxy sees it. It has made one claim already."""
    direct = await site.trial()
    await direct.add("before", "a", "b", "c")
    behind = Site(proxy.url, site.clock)
    trial = await behind.trial()
    await (await trial.claim(1)).finish()
    yield trial
    proxy.pass_replies = proxy.accept = True
    await behind.close()


async def cut_a_claim(site: Site, proxy: HoldingProxy, trial: Trial, *, reachable: bool) -> "asyncio.Task[Batch]":
    """Claim, and break the connection when the server has committed and the reply is on its way."""
    known = len(await site.sql(CLAIMS))
    proxy.pass_replies = False
    claiming = asyncio.create_task(trial.claim())
    async with asyncio.timeout(PATIENCE):
        while True:
            if len(await site.sql(CLAIMS)) > known:
                break
            await asyncio.sleep(POLL_SECONDS)
    proxy.pass_replies = proxy.accept = reachable
    proxy.break_connections()
    return claiming


async def test_a_claim_whose_reply_is_cut_off_is_found(site: Site, proxy: HoldingProxy, through: Trial) -> None:
    """INV-1, INV-4. The worker connects again and gets the claim that was made, not another one."""
    batch = await (await cut_a_claim(site, proxy, through, reachable=True))
    assert sorted(batch.keys) == ["a", "b", "c"]
    assert {item.attempts for item in batch.items} == {0}
    assert len(await site.sql(CLAIMS)) == 2
    await batch.finish()
    assert (await through.status()).checkpoint == 4


async def test_a_worker_that_cannot_connect_finds_its_claim_later(
    site: Site, proxy: HoldingProxy, through: Trial
) -> None:
    """INV-1. The same token asks for the same claim, however long the server was out of reach."""
    with pytest.raises(StoreUnavailable):
        await (await cut_a_claim(site, proxy, through, reachable=False))
    proxy.pass_replies = proxy.accept = True
    through.tokens = iter([next(through.tokens) - 1])
    batch = await through.claim()
    assert sorted(batch.keys) == ["a", "b", "c"]
    assert {item.attempts for item in batch.items} == {0}
    assert len(await site.sql(CLAIMS)) == 2


async def test_a_claim_that_nobody_asks_for_again_is_taken_over(
    site: Site, proxy: HoldingProxy, through: Trial
) -> None:
    """INV-1, INV-4. The worker never comes back: another one gets the items, once, when the lease has ended."""
    with pytest.raises(StoreUnavailable):
        await (await cut_a_claim(site, proxy, through, reachable=False))
    other = await site.trial()
    assert (await other.claim()).keys == []
    assert await other.total("claimed") == 3
    site.clock.advance(LEASE + 1)
    batch = await other.claim()
    assert sorted(batch.keys) == ["a", "b", "c"]
    assert {item.attempts for item in batch.items} == {1}
    assert (await other.claim()).keys == []
    await batch.finish()
    await other.check()
