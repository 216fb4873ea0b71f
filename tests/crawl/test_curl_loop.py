"""libcurl's timer on the loop: it fires when it is due, not before, and is never lost."""

import asyncio
from typing import Any

import pycurl
import pytest
import uvloop

from swath.crawl.http.curl_loop import CurlLoop
from tests.recorder import PATIENCE


class Recorded:
    """A stand-in for libcurl that records when its timer fired."""

    def __init__(self) -> None:
        self.acted: list[float] = []
        self.event = asyncio.Event()
        self.running = 0

    def socket_action(self, socket: int, what: int) -> tuple[int, int]:
        assert socket == pycurl.SOCKET_TIMEOUT
        self.acted.append(asyncio.get_running_loop().time())
        self.event.set()
        return 0, self.running

    def timeout(self) -> int:
        return 1

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


async def test_a_timer_that_was_too_early_for_libcurl_fires_again(multi: CurlLoop) -> None:
    """libcurl does nothing then, and does not ask for a timer either."""
    recorded = Recorded()
    multi._multi, multi._running, recorded.running = recorded, 1, 1
    multi._on_timer(1)
    async with asyncio.timeout(PATIENCE):
        while len(recorded.acted) < 3:
            recorded.event.clear()
            await recorded.event.wait()
    multi._on_timer(-1)


@pytest.mark.parametrize("told", [[60_000, 10], [10, 40]])
def test_on_uvloop(told: list[int]) -> None:
    async def main() -> None:
        multi = CurlLoop(asyncio.get_running_loop(), done=lambda curl, code, message: None, connections=1, idle=1)
        await test_the_timer_fires_once_when_it_was_last_told(multi, told)
        multi.close()

    uvloop.run(main())


class Server:
    """Counts its connections, and answers a request when it is told to."""

    def __init__(self) -> None:
        self.open = 0
        self.most_open = 0
        self.asked = asyncio.Semaphore(0)
        self.answer = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        try:
            while await reader.readline():
                while (await reader.readline()).strip():
                    pass
                self.asked.release()
                await self.answer.wait()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        finally:
            self.open -= 1
            writer.close()


async def test_no_more_connections_are_open_than_allowed() -> None:
    """The other transfers wait until one is free. Afterwards, no more of them stay open than may be idle."""
    told = Server()
    ended: asyncio.Queue[int] = asyncio.Queue()
    loop = CurlLoop(
        asyncio.get_running_loop(), done=lambda curl, code, message: ended.put_nowait(code), connections=2, idle=1
    )
    server = await asyncio.start_server(told.serve, "127.0.0.1", 0)
    async with asyncio.timeout(PATIENCE):
        transfers = []
        for n in range(5):
            curl = pycurl.Curl()
            curl.setopt(pycurl.URL, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/{n}")
            transfers.append(curl)
            loop.add(curl)
        for _ in range(2):
            await told.asked.acquire()
        await asyncio.sleep(0.05)  # time for a third connection, if there were no limit
        told.answer.set()
        assert [await ended.get() for _ in transfers] == [0] * 5
        assert told.most_open == 2
        while told.open > 1:  # noqa: ASYNC110  the server notices it
            await asyncio.sleep(0.001)
    loop.close()
    server.close()
    await server.wait_closed()
