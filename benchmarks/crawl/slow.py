"""Thousands of workers and hosts that take ten seconds to respond: how many requests are in flight, at what cost.

    python -m benchmarks.crawl.slow serve

The server is a separate process that counts the requests in flight. Each host has one page without links, and a
robots.txt that is as slow, so a worker spends twenty seconds on a host.
"""

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import uvloop

from benchmarks.crawl import tree
from benchmarks.crawl.server_process import read_samples, run_server_process
from benchmarks.crawl.tree import ContestantFailed
from benchmarks.results import Figure

ANSWER_SECONDS = 10.0
SETTLED_SECONDS = 10.0  # after the first request, before requests in flight are counted
LOOK_SECONDS = 0.25
ROOM = 1.3  # more hosts than can be fetched in the time
PORTS = 8  # a single one would run out of ephemeral ports
BODY = b"<!DOCTYPE html><title>Slow</title><p>Here I am.</p>"
ANSWER = (b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n" % len(BODY)) + BODY
ROBOTS = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n"


class Serving(asyncio.Protocol):
    open = 0  # requests without a response, of all connections
    heard = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.waiting = 0

    def data_received(self, data: bytes) -> None:
        for request in data.split(b"\r\n\r\n")[:-1]:
            Serving.open += 1
            Serving.heard += 1
            self.waiting += 1
            answer = ROBOTS if request.startswith(b"GET /robots.txt") else ANSWER
            asyncio.get_running_loop().call_later(ANSWER_SECONDS, self.answer, answer)

    def answer(self, answer: bytes) -> None:
        if self.waiting:
            self.waiting -= 1
            Serving.open -= 1
            self.transport.write(answer)  # type: ignore[attr-defined]

    def connection_lost(self, error: Exception | None) -> None:
        Serving.open -= self.waiting
        self.waiting = 0


async def serve() -> None:
    """Serve until standard input ends. Print a line per sample: seconds, requests in flight, requests so far."""
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Serving, "127.0.0.1", 0, backlog=8_000) for _ in range(PORTS)]
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
    over = asyncio.Event()
    loop.add_reader(0, over.set)
    while not over.is_set():
        await asyncio.sleep(LOOK_SECONDS)
        print(json.dumps([time.monotonic(), Serving.open, Serving.heard]), flush=True)


def measure(directory: Path, *, workers: int, seconds: float, environment: Mapping[str, str]) -> Figure:
    """Crawl slow hosts for some seconds with a number of workers."""
    home = directory / f"slow-{workers}"
    home.mkdir()
    hosts = int(ROOM * workers * seconds / (2 * ANSWER_SECONDS)) + workers
    looks = home / "looks"
    with run_server_process("benchmarks.crawl.slow", log=looks, environment=environment) as ports:
        seeds = home / "seeds.txt"
        seeds.write_text("".join(f"http://h{host}.example:{ports[host % PORTS]}/\n" for host in range(hosts)))
        command = [
            sys.executable, "-m", "swath", "crawl", "--seeds", str(seeds), "--out", str(home / "out"),
            "--workers", str(workers), "--delay", "0", "--connect-to", "::127.0.0.1:", "--allow-private",
            "--contact", "bench@example.com", "--max-duration", f"{seconds:g}s", "--json",
        ]  # fmt: skip
        used = tree.run(command, environment=environment, cwd=home, timeout=seconds * 3 + 120, codes={0, 1})
    stats = json.loads(used.output.splitlines()[-1])
    share, most, began = _share(looks, workers, seconds)
    return {
        "name": f"{workers:,} workers",
        "workers": workers,
        "hosts": hosts,
        "in_flight_share": share,
        "most_in_flight": most,
        "requests": began,
        "pages": stats["pages"],
        "errors": stats["errors"],
        "rss_mb": used.peak_rss_mb,
        "cpu_seconds": used.cpu_seconds,
        "seconds": used.seconds,
    }


def _share(looks: Path, workers: int, seconds: float) -> tuple[float, int, int]:
    """Return the average requests in flight per worker after the first responses, their maximum, and all requests."""
    seen = read_samples(looks)
    first = next((at for at, _, heard in seen if heard), None)
    if first is None:
        raise ContestantFailed("the slow server saw no request")
    ends = first + seconds - ANSWER_SECONDS
    counted = [waiting for at, waiting, _ in seen if first + SETTLED_SECONDS <= at <= ends]
    return sum(counted) / len(counted) / workers, max(waiting for _, waiting, _ in seen), seen[-1][2]


if __name__ == "__main__":
    if sys.argv[1:] != ["serve"]:
        raise SystemExit(__doc__)
    uvloop.run(serve())
