"""Per item, fences only rise: also where a claim spans partitions and a later one was in the second before it. Claims
that ended long ago are forgotten, however many there are."""

import asyncio

import pytest

from swath.conformance.trial import Trial, release
from swath.core.clock import SECOND
from swath.core.errors import LeaseLost
from tests.postgres.lending import Losing
from tests.postgres.site import Site
from tests.recorder import PATIENCE


async def test_a_claim_passes_by_where_a_later_one_was_first(site: Site) -> None:
    """A number is drawn in the first partition. Held up there, a claim must not take what a higher number had held."""
    trial = await site.trial(partitions=2)
    await trial.add("a", lane=trial.lane(0))
    await trial.add("b", lane=trial.lane(1))
    await site.sql("ALTER FUNCTION {schema}.claim_{set} SET lock_timeout TO '60s'")
    holder = await site.connect()
    await holder.execute("BEGIN")
    await holder.execute(site.location.fill("SELECT 1 FROM {schema}.item WHERE key = 'a' FOR UPDATE"))
    spanning = asyncio.create_task(trial.claim(order=[0, 1]))
    await site.waiting()
    later = await trial.claim(order=[1])
    await later.settle(release(later.only))
    await holder.commit()
    async with asyncio.timeout(PATIENCE):
        earlier = await spanning
    assert 0 < earlier.reply.fence < later.reply.fence
    assert (earlier.keys, list(earlier.reply.skipped)) == (["a"], [1]), "skipped is not empty: it is looked at again"
    last = await trial.claim()
    assert last.keys == ["b"]
    assert last.reply.fence > later.reply.fence
    await trial.check()


async def claim_and_release(trial: Trial, claims: int) -> list[int]:
    """The fences of claims that were made one after the other."""
    fences = []
    for _ in range(claims):
        batch = await trial.claim(1, lease=1)
        await batch.settle(release(batch.only))
        fences.append(batch.reply.fence)
    return fences


async def kept(site: Site, fences: list[int]) -> list[int]:
    rows = await site.sql("SELECT fence FROM {schema}.claim WHERE fence = ANY (%s) ORDER BY fence", fences)
    return [fence for (fence,) in rows]


@pytest.mark.parametrize("claims_later", [100_000, 10_000_000])
async def test_claims_that_ended_long_ago_are_forgotten(site: Site, claims_later: int) -> None:
    """The sequence stands for all the claims in between. Those that are too young when so many others were made, as
    where claims are many a second, are forgotten when there were a hundred times as many."""
    trial = await site.trial()
    await trial.add("work")
    old = await claim_and_release(trial, 30)
    if claims_later > 100_000:
        await site.sql("SELECT setval('{schema}.fence', %s)", old[0] + 100_000 - 1)
        site.clock.advance(3_500)
        await claim_and_release(trial, 40)
        assert await kept(site, old) == old, "they ended within the hour"
    await site.sql("SELECT setval('{schema}.fence', %s)", old[0] + claims_later - 1)
    site.clock.advance(3_700)
    await claim_and_release(trial, 10)
    assert await kept(site, old) == old[10:], "a few with each"
    young = await claim_and_release(trial, 30)
    assert await kept(site, old) == []
    assert await kept(site, young) == young
    await trial.check()


async def test_what_a_forgotten_claim_holds_is_taken_back(site: Site) -> None:
    """INV-4. Nobody was in its partition for as long: there is no row left on which take-over could begin."""
    trial = await site.trial(partitions=2)
    await trial.add("held", lane=trial.lane(0))
    await trial.add("work", lane=trial.lane(1))
    lost = await trial.claim(order=[0])
    await site.sql("SELECT setval('{schema}.fence', %s)", lost.reply.fence + 100_000 - 1)
    site.clock.advance(3_700)
    assert (await trial.claim(order=[1])).keys == ["work"]
    assert await kept(site, [lost.reply.fence]) == []
    with pytest.raises(LeaseLost, match="has no such claim"):
        await lost.finish()
    batch = await trial.claim(order=[0])
    assert (batch.keys, batch.only.attempts, batch.reply.recovered) == (["held"], 1, 1)
    await trial.check()


@pytest.mark.parametrize(("passed", "ends"), [(59, 119), (-10, 60), (60, None)])
async def test_a_claim_whose_answer_was_lost_begins_its_lease_anew(site: Site, passed: int, ends: int | None) -> None:
    """INV-2. A found lease does not expire sooner after the clock stepped back; an expired claim is not found."""
    connections = Losing(site.location.dsn)
    trial = await site.trial(connections=connections)
    await trial.add("a")
    began = site.clock.now() + 1  # partition time: something was added just now

    async def meanwhile() -> None:
        await trial.wait_until(began + passed * SECOND)

    connections.meanwhile = meanwhile
    batch = await trial.claim(lease=60)
    if ends is not None:
        assert (batch.keys, batch.reply.expires_at) == (["a"], began + ends * SECOND)
        await trial.wait_until(batch.reply.expires_at)
    else:
        assert (batch.reply.fence, batch.keys) == (0, [])
    batch = await trial.claim()
    assert (batch.keys, batch.only.attempts, batch.reply.recovered) == (["a"], 1, 1)
    await trial.check()
