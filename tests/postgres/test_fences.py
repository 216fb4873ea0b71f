"""Per item, fences only rise: also where a claim spans partitions and a later one was in the second before it."""

import asyncio

from swath.conformance.trial import release
from tests.postgres.site import Site
from tests.recorder import PATIENCE


async def test_a_claim_passes_by_where_a_later_one_was_first(site: Site) -> None:
    """A number is drawn in the first partition. Held up there, a claim must not take what a higher number had held."""
    trial = await site.trial(partitions=2)
    await trial.add("a", lane=trial.lane(0))
    await trial.add("b", lane=trial.lane(1))
    await site.sql("ALTER FUNCTION {schema}.claim SET lock_timeout TO '60s'")
    holder = await site.connect()
    await holder.execute("BEGIN")
    await holder.execute(site.target.fill("SELECT 1 FROM {schema}.item WHERE key = 'a' FOR UPDATE"))
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
