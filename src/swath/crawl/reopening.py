"""Queue pages again that were refused for a reason that no longer holds."""

from swath import Frontier
from swath.crawl.failed_pages import forget_host_failures
from swath.crawl.refusal import EXCLUDED, PRIVATE, REFUSED_PRIVATE

FACT = "reopened private"  # key of the fact: how many private pages had been refused when they were queued again


async def reopen_refused(frontier: Frontier, reason: str) -> int:
    """Queue all pages again that were refused for this reason; return how many."""
    return await frontier.reopen_done(result_key=EXCLUDED, where=lambda item: item.result[EXCLUDED] == reason)


async def reopen_private(frontier: Frontier, *, newly_allowed: bool) -> int:
    """Queue the pages again that --allow-private permits; return how many.

    Earlier versions made such pages dead, so look there if the last run did not have --allow-private.
    """
    reopened = 0
    refused = (await frontier.counters()).get(REFUSED_PRIVATE, 0)
    if refused > (await frontier.facts([FACT])).get(FACT, 0):  # otherwise spare a search of all done items
        reopened = await reopen_refused(frontier, PRIVATE)
        await frontier.learn({FACT: refused})
    if newly_allowed and (await frontier.status()).dead:
        await forget_host_failures(frontier)  # such as a robots.txt that redirects to a private address
        reopened += await frontier.reopen_dead(reason=f"{PRIVATE}:")
    return reopened
