"""What a claim cannot do without is done in parts: everybody else waits as long as one takes."""

from swath.core.clock import SECOND
from swath.core.store import ADD_CHUNK, MAX_CLAIM, Settings
from tests.postgres.site import Site

LANES = 6_000
AT_ONCE = 5_000  # lanes passed by, after which a claim leaves the rest to the next
RESTING = "SELECT count(*) FROM {schema}.lane_state WHERE ready_at > (SELECT max(time) FROM {schema}.partition_state)"


async def test_lanes_that_stricter_limits_hold_back_are_passed_in_parts(site: Site) -> None:
    trial = await site.trial(settings=Settings(2, concurrency=1))
    items = [trial.item(f"{lane} {n}", lane=f"lane{lane}") for lane in range(LANES) for n in range(2)]
    for start in range(0, len(items), ADD_CHUNK):
        await trial.store.add(items[start : start + ADD_CHUNK])
    await (await trial.claim(MAX_CLAIM)).finish()
    await trial.store.change_settings(min_interval=3_600 * SECOND)
    for passed in (AT_ONCE, LANES):
        batch = await trial.claim(1)
        assert not batch.items
        ((resting,),) = await site.sql(RESTING)
        assert passed <= resting < passed + 500
        assert batch.reply.next_ready_at is not None
        assert (batch.reply.next_ready_at <= batch.reply.now) == (passed < LANES)
    await trial.check()
