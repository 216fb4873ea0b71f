"""libcurl's timer on the loop: it fires when it is due, not before, and is never lost."""

import asyncio
from typing import Any

import pycurl
import pytest
import uvloop

from swath.crawl.http.curl_loop import CurlLoop


class Recorded:
    """A stand-in for libcurl that records when its timer fired."""

    def __init__(self) -> None:
        self.acted: list[float] = []
        self.event = asyncio.Event()

    def socket_action(self, socket: int, what: int) -> tuple[int, int]:
        assert socket == pycurl.SOCKET_TIMEOUT
        self.acted.append(asyncio.get_running_loop().time())
        self.event.set()
        return 0, 0

    def close(self) -> None:
        pass


@pytest.fixture
async def multi() -> Any:
    made = CurlLoop(asyncio.get_running_loop(), done=lambda curl, code, message: None, connections=1, idle=1)
    yield made
    made.close()


@pytest.mark.parametrize("told", [[0], [20], [10, 40], [40, 10], [10, 40, 20], [0, 30], [30, 0], [30, -1, 10]])
async def test_the_timer_fires_once_when_it_was_last_told(multi: CurlLoop, told: list[int]) -> None:
    recorded = Recorded()
    multi._multi = recorded
    for milliseconds in told:
        multi._on_timer(milliseconds)
    due = asyncio.get_running_loop().time() + told[-1] / 1000
    await recorded.event.wait()
    assert recorded.acted[0] >= due - 0.005  # the loop's own rounding
    await asyncio.sleep(0.05)
    assert len(recorded.acted) == 1


async def test_a_timer_taken_back_does_not_fire(multi: CurlLoop) -> None:
    recorded = Recorded()
    multi._multi = recorded
    multi._on_timer(5)
    multi._on_timer(-1)
    await asyncio.sleep(0.02)
    assert recorded.acted == []


@pytest.mark.parametrize("told", [[60_000, 10], [10, 40]])
def test_on_uvloop(told: list[int]) -> None:
    async def main() -> None:
        multi = CurlLoop(asyncio.get_running_loop(), done=lambda curl, code, message: None, connections=1, idle=1)
        await test_the_timer_fires_once_when_it_was_last_told(multi, told)
        multi.close()

    uvloop.run(main())
