"""Attempts are kept in two bytes: as many as a frontier allows, of retries and of losses together, fit in."""

from swath.conformance.trial import LEASE, retry
from swath.core.store import Settings
from swath.core.validation import MAX_ATTEMPTS
from tests.postgres.site import Site


async def test_the_most_attempts_that_are_allowed_can_be_counted(site: Site) -> None:
    trial = await site.trial(settings=Settings(1, max_attempts=MAX_ATTEMPTS))
    await trial.add("a")
    await site.sql("UPDATE {schema}.item SET attempts = %s, losses = %s", 2 * MAX_ATTEMPTS - 3, MAX_ATTEMPTS - 1)
    batch = await trial.claim()
    await batch.settle(retry(batch.only))
    (held,) = (await trial.claim()).items
    assert (held.attempts, held.losses) == (2 * MAX_ATTEMPTS - 2, MAX_ATTEMPTS - 1)
    trial.clock.advance(LEASE + 1)
    assert (await trial.claim()).keys == []
    found = await trial.find_only("a")
    assert (found.state, found.attempts) == ("dead", 2 * MAX_ATTEMPTS - 1)
    await trial.check()
