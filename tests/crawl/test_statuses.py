"""Which answers of a server are worth another attempt: its own failures, and those of the proxy in front of it."""

from functools import partial

from swath.core.item import Done, Retry
from swath.crawl.http.response import Response
from tests.crawl.handling import answered, handling
from tests.crawl.test_unreachable import page

RETRIED = {429, 500, 502, 503, 504, 507, *range(520, 526), 527, 530}


def answer(status: int, url: str) -> Response:
    return answered(url, status)


async def test_a_status_is_retried_or_final() -> None:
    retried: set[int] = set()
    for status in [204, *range(400, 600)]:
        async with handling(partial(answer, status), delay=0.0, robots=False) as (_, handler, _):
            outcome = await handler(page())
            assert isinstance(outcome, Retry | Done), status
            if isinstance(outcome, Retry):
                retried.add(status)
    assert retried == RETRIED
