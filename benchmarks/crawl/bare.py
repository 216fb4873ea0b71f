"""The upper bound: pycurl, selectolax and ada-url in a loop with a set in memory. Nothing is durable.

    python -m benchmarks.crawl.bare [--warc FILE] [--at-once N] SEEDS

The loop fetches robots.txt once per origin and obeys it with swath's parser. With --warc it writes the same records as
swath, including those of robots.txt, with swath's functions, but never syncs the file.
"""

import argparse
import json
import select
import time
from collections import deque
from pathlib import Path

import pycurl
from ada_url import join_url
from selectolax.lexbor import LexborHTMLParser

from swath.crawl.archive import warc
from swath.crawl.robots.parser import RobotsTxt

NAME = "bare"
AGENT = "User-Agent: bare/0.1 (+https://example.com/about)"
HEADERS = [AGENT, "Accept: text/html,application/xhtml+xml", "Accept-Encoding: gzip, deflate"]
WAIT = 1.0  # seconds for a socket, at the most
TIMEOUT = 60  # seconds for a page: a server that stands still is an error, and soon
ROBOTS = "/robots.txt"


class Loop:
    """Fetches what it finds until there is no more."""

    def __init__(self, seeds: list[str], *, at_once: int, archive: Path | None) -> None:
        self.pages = 0
        self.size = 0
        self._waiting = deque(seeds)
        self._robots: dict[str, RobotsTxt | list[str]] = {}  # of an origin that has yet to answer: what waits for it
        self._seen = set(seeds)
        self._at_once = at_once
        self._archive = None if archive is None else archive.open("wb")
        self._epoll = select.epoll()
        self._watched: dict[int, int] = {}
        self._due: float | None = 0.0
        self._running = 0
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, at_once)
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self._free = [self._handle() for _ in range(at_once)]
        self._urls: dict[pycurl.Curl, tuple[str, float]] = {}

    def _handle(self) -> pycurl.Curl:
        curl = pycurl.Curl()
        curl.parts, curl.lines = [], []
        curl.setopt(pycurl.WRITEFUNCTION, curl.parts.append)
        curl.setopt(pycurl.HEADERFUNCTION, curl.lines.append)
        curl.setopt(pycurl.HTTPHEADER, HEADERS)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.TIMEOUT, TIMEOUT)
        curl.setopt(pycurl.BUFFERSIZE, 64 * 1024)
        return curl

    def _on_socket(self, wanted: int, socket: int, multi: object, data: object) -> None:
        before = self._watched.pop(socket, 0)
        if wanted == pycurl.POLL_REMOVE:
            if before:
                self._epoll.unregister(socket)
            return
        mask = (select.EPOLLIN if wanted & pycurl.POLL_IN else 0) | (select.EPOLLOUT if wanted & pycurl.POLL_OUT else 0)
        self._watched[socket] = mask
        if before:
            self._epoll.modify(socket, mask)
        else:
            self._epoll.register(socket, mask)

    def _on_timer(self, milliseconds: int) -> None:
        self._due = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000

    def run(self) -> None:
        while self._waiting or self._running:
            while self._waiting and self._free:
                self._visit(self._waiting.popleft())
            wait = WAIT if self._due is None else min(WAIT, max(0.0, self._due - time.monotonic()))
            running = self._running
            for socket, events in self._epoll.poll(wait):
                ready = (pycurl.CSELECT_IN if events & ~select.EPOLLOUT else 0) | (
                    pycurl.CSELECT_OUT if events & select.EPOLLOUT else 0
                )
                _, running = self._multi.socket_action(socket, ready)
            if self._due is not None and self._due <= time.monotonic():
                self._due = None
                _, running = self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
            if running < self._running:
                self._reap()
        if self._archive is not None:
            self._archive.close()

    def _visit(self, url: str) -> None:
        origin = _origin(url)
        robots = self._robots.get(origin)
        if robots is None:
            self._robots[origin] = [url]
            self._start(origin + ROBOTS)
        elif isinstance(robots, list):
            robots.append(url)
        elif robots.decide(url, NAME).allowed:
            self._start(url)

    def _start(self, url: str) -> None:
        curl = self._free.pop()
        curl.setopt(pycurl.URL, url)
        self._urls[curl] = url, time.time()
        self._multi.add_handle(curl)
        self._running += 1

    def _reap(self) -> None:
        waiting = 1
        while waiting:
            waiting, succeeded, failed = self._multi.info_read()
            if failed:
                raise RuntimeError(failed[0][1:])
            for curl in succeeded:
                self._multi.remove_handle(curl)
                self._running -= 1
                url, started = self._urls.pop(curl)
                body, head = b"".join(curl.parts), b"".join(curl.lines)
                if url.endswith(ROBOTS):
                    self._obey(url, body)
                elif curl.getinfo(pycurl.RESPONSE_CODE) == 200:
                    self._page(url, body)
                if self._archive is not None:
                    self._archive.writelines(_records(url, started, head, body))
                curl.parts.clear()
                curl.lines.clear()
                self._free.append(curl)

    def _obey(self, url: str, body: bytes) -> None:
        waiting = self._robots[_origin(url)]
        assert isinstance(waiting, list)
        self._robots[_origin(url)] = RobotsTxt.parse(body)
        self._waiting.extendleft(waiting)

    def _page(self, url: str, body: bytes) -> None:
        self.pages += 1
        self.size += len(body)
        seen, waiting = self._seen, self._waiting
        for node in LexborHTMLParser(body.decode()).css("a"):
            href = node.attributes.get("href")
            if href:
                link = join_url(url, href)
                if link not in seen:
                    seen.add(link)
                    waiting.append(link)


def _origin(url: str) -> str:
    return url[: url.index("/", 8)]


def _records(url: str, started: float, head: bytes, body: bytes) -> tuple[bytes, bytes]:
    address, _, path = url.partition("://")[2].partition("/")
    sent = f"GET /{path} HTTP/1.1\r\nHost: {address}\r\n{AGENT}\r\n{HEADERS[1]}\r\n{HEADERS[2]}\r\n\r\n".encode()
    where = address.partition(":")[0]
    made = warc.new_record_id()
    digest = warc.compute_payload_digest(body)
    common = {"time": started, "address": where, "protocol": "http/1.1"}
    first = warc.build_response(url, record_id=made, head=head, body=body, digest=digest, **common)
    return first, warc.build_request(url, record_id=warc.new_record_id(), sent=sent, concurrent_to=made, **common)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", type=Path)
    parser.add_argument("--at-once", type=int, default=100)
    parser.add_argument("--warc", type=Path)
    options = parser.parse_args()
    loop = Loop(options.seeds.read_text().split(), at_once=options.at_once, archive=options.warc)
    loop.run()
    print(json.dumps({"pages": loop.pages, "bytes": loop.size}))


if __name__ == "__main__":
    main()
