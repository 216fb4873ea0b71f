"""A polite crawl of thousands of hosts, beside the most that politeness allows: the number of hosts ÷ the delay.

    python -m benchmarks.crawl.polite serve HOSTS

Most links lead to ten hosts, as on the web, so their lanes become deep while the others hold a few pages each. The
server is a separate process. It makes each page from its URL, and measures the shortest time between the answer to one
request of a host and the next request of that host.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.crawl import tree
from benchmarks.crawl.server_process import read_samples, run_server_process
from benchmarks.crawl.tree import ContestantFailed
from benchmarks.results import Figure

POPULAR = 10  # hosts that most links lead to
POPULAR_SHARE = 0.8
POPULAR_PAGES = 100_000  # of each popular host
PAGES = 1_000  # of each other host
LINKS = 30  # on a page
LOOK_SECONDS = 0.25
PORTS = 8
SETTLED_DELAYS = 2  # a host has answered its robots.txt and its front page after this many delays
ROBOTS = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n"


class Pacing:
    """When the hosts were asked and answered."""

    def __init__(self) -> None:
        self.requests = 0
        self.shortest: float | None = None
        self._answered_at: dict[str, float] = {}

    def hear(self, host: str, at: float) -> None:
        """Count a request. Call it when the request arrives, and `answer` just before the server answers."""
        self.requests += 1
        before = self._answered_at.get(host)
        if before is not None and (self.shortest is None or at - before < self.shortest):
            self.shortest = at - before

    def answer(self, host: str, at: float) -> None:
        self._answered_at[host] = at

    @property
    def hosts(self) -> int:
        return len(self._answered_at)


class Website:
    def __init__(self, hosts: int) -> None:
        self._hosts = hosts
        self.ports: Sequence[int] = ()

    def front_pages(self) -> list[str]:
        return [f"{self._origin(host)}/" for host in range(self._hosts)]

    def respond(self, host: str, path: str) -> bytes:
        if path == "/robots.txt":
            return ROBOTS
        body = self._make_page(random.Random(f"{host}{path}")).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def _make_page(self, draw: random.Random) -> str:
        anchors = "".join(f"<li><a href={self._draw_link(draw)}>more</a></li>\n" for _ in range(LINKS))
        return f"<!DOCTYPE html><title>A page</title><ul>{anchors}</ul>"

    def _draw_link(self, draw: random.Random) -> str:
        if draw.random() < POPULAR_SHARE:
            host, pages = draw.randrange(POPULAR), POPULAR_PAGES
        else:
            host, pages = draw.randrange(POPULAR, self._hosts), PAGES
        return f"{self._origin(host)}/p/{draw.randrange(pages)}"

    def _origin(self, host: int) -> str:
        return f"http://h{host}.example:{self.ports[host % len(self.ports)]}"


class WebsiteProtocol(asyncio.Protocol):
    def __init__(self, website: Website, pacing: Pacing) -> None:
        self._website = website
        self._pacing = pacing

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        at = time.monotonic()
        for request in data.split(b"\r\n\r\n")[:-1]:
            path, host = parse_request(request)
            self._pacing.hear(host, at)
            response = self._website.respond(host, path)
            self._pacing.answer(host, time.monotonic())
            self._transport.write(response)  # type: ignore[attr-defined]


def parse_request(request: bytes) -> tuple[str, str]:
    """Return the path and the host of a request head."""
    first, *fields = request.decode("latin-1").split("\r\n")
    host = next(value.strip() for name, _, value in (one.partition(":") for one in fields) if name.lower() == "host")
    return first.split(" ")[1], host


async def serve(hosts: int) -> None:
    """Serve until standard input ends. Print samples: seconds, requests so far, hosts so far, shortest gap."""
    loop = asyncio.get_running_loop()
    website, pacing = Website(hosts), Pacing()
    servers = [
        await loop.create_server(lambda: WebsiteProtocol(website, pacing), "127.0.0.1", 0, backlog=4_096)
        for _ in range(PORTS)
    ]
    website.ports = [server.sockets[0].getsockname()[1] for server in servers]
    print(json.dumps(website.ports), flush=True)
    over = asyncio.Event()
    loop.add_reader(0, over.set)
    while not over.is_set():
        await asyncio.sleep(LOOK_SECONDS)
        print(json.dumps([time.monotonic(), pacing.requests, pacing.hosts, pacing.shortest]), flush=True)


def measure(directory: Path, *, hosts: int, delay: float, seconds: float, environment: Mapping[str, str]) -> Figure:
    """Crawl for some seconds with a delay per host."""
    home = directory / "polite"
    home.mkdir()
    log = home / "samples"
    with run_server_process("benchmarks.crawl.polite", str(hosts), log=log, environment=environment) as ports:
        website = Website(hosts)
        website.ports = ports
        seeds = home / "seeds.txt"
        seeds.write_text("".join(f"{url}\n" for url in website.front_pages()))
        command = [
            sys.executable, "-m", "swath", "crawl", "--seeds", str(seeds), "--out", str(home / "out"),
            "--delay", f"{delay:g}s", "--connect-to", "::127.0.0.1:", "--allow-private",
            "--contact", "bench@example.com", "--max-duration", f"{seconds:g}s", "--json",
        ]  # fmt: skip
        used = tree.run(command, environment=environment, cwd=home, timeout=seconds * 2 + 120, codes={0, 1})
    stats = json.loads(used.output.splitlines()[-1])
    rate, shortest = evaluate(read_samples(log), hosts=hosts, delay=delay, seconds=seconds)
    return {
        "name": f"{hosts:,} hosts",
        "hosts": hosts,
        "delay_seconds": delay,
        "crawl_seconds": seconds,
        "requests_per_s": rate,
        "most_per_s": hosts / delay,
        "shortest_gap_seconds": shortest,
        "pages": stats["pages"],
        "errors": stats["errors"],
        "queued": stats["queued"],
        "rss_mb": used.peak_rss_mb,
        "cpu_seconds": used.cpu_seconds,
        "seconds": used.seconds,
    }


def evaluate(samples: Sequence[Sequence[Any]], *, hosts: int, delay: float, seconds: float) -> tuple[float, float]:
    """Return the requests per second once every host has begun, and the shortest gap between two of a host."""
    first = next((at for at, requests, *_ in samples if requests), None)
    if first is None:
        raise ContestantFailed("the server saw no request")
    begins, ends = first + SETTLED_DELAYS * delay, first + seconds - 2 * LOOK_SECONDS
    window = [(at, requests) for at, requests, *_ in samples if begins <= at <= ends]
    _, _, seen, shortest = samples[-1]
    if len(window) < 2 or shortest is None:
        raise ContestantFailed(f"the crawl was too short for a delay of {delay:g} s")
    if seen < hosts:
        raise ContestantFailed(f"only {seen:,} of {hosts:,} hosts were asked")
    (start, before), (end, after) = window[0], window[-1]
    return (after - before) / (end - start), shortest


if __name__ == "__main__":
    if sys.argv[1:2] != ["serve"] or len(sys.argv) != 3:
        raise SystemExit(__doc__)
    uvloop.run(serve(int(sys.argv[2])))
