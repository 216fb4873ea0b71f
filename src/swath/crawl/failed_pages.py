"""Make failed pages ready again, so that their hosts are really tried again."""

import secrets

from swath import Frontier

RETRY_FACT = "failed pages retried"  # key of a fact that changes whenever failed pages are made ready again


async def forget_host_failures(frontier: Frontier) -> None:
    """Forget which hosts could not be reached: an `OriginFailure` holds only while this fact does not change.

    Call this before the pages are made ready, because a crawl may be running.
    """
    await frontier.learn({RETRY_FACT: secrets.token_hex(8)})


async def retry_failed_pages(frontier: Frontier) -> int:
    """Make all failed pages ready again; return how many."""
    await forget_host_failures(frontier)
    return await frontier.reopen_dead()
