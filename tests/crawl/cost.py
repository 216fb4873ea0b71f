"""What a page costs in CPU time of the client: the fetcher against a bare loop of pycurl, then WARC on top.

    python -m tests.crawl.cost [--pages 20000] [--fresh] [--tls]

Loopback, 200 hosts, pages of 31 KB, 100 at once; the server is a process of its own and is not counted.
"""

import argparse
import asyncio
import random
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pycurl
import uvloop

from swath.crawl.archive import warc
from swath.crawl.http.connect_to import ConnectTo
from swath.crawl.http.fetcher import Fetcher
from swath.crawl.http.response import Response
from tests.crawl.web import Fixed, certificate

HOSTS = 200
AT_ONCE = 100


def page() -> bytes:
    draw = random.Random(1)
    words = [bytes(draw.choices(b"abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 10))) for _ in range(2_000)]
    links = b"".join(b'<a href="/page/%d">%s</a>\n' % (draw.randrange(10**6), draw.choice(words)) for _ in range(60))
    return (b"<html><body>" + links + b" ".join(draw.choices(words, k=5_000)))[:31_000]


PAGE = page()
RESPONSE = (
    b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sun, 15 Nov 2026 06:00:00 GMT\r\nContent-Type: text/html\r\n"
    b"Content-Length: %d\r\nLast-Modified: Sun, 15 Nov 2026 05:00:00 GMT\r\nConnection: keep-alive\r\n"
    b'ETag: "6911-7918"\r\nAccept-Ranges: bytes\r\n\r\n' % len(PAGE)
) + PAGE


class Serving(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for _ in range(data.count(b"\r\n\r\n")):
            self.transport.write(RESPONSE)  # type: ignore[attr-defined]


async def serve(directory: str) -> None:
    context = None
    if directory:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(Path(directory, "host.pem"), Path(directory, "host.key"))
    server = await asyncio.get_running_loop().create_server(Serving, "127.0.0.1", 0, ssl=context, backlog=1_000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def bare(urls: list[str], port: int, *, fresh: bool) -> None:
    """The least that a loop of pycurl can do: bodies and headers in memory, handles used again."""
    multi = pycurl.CurlMulti()
    multi.setopt(pycurl.M_MAXCONNECTS, AT_ONCE * 2)
    free = []
    waiting = iter(urls)
    for _ in range(AT_ONCE):
        curl = pycurl.Curl()
        curl.setopt(pycurl.CONNECT_TO, [f"::127.0.0.1:{port}"])
        curl.setopt(pycurl.SSL_VERIFYPEER, 0)
        curl.setopt(pycurl.SSL_VERIFYHOST, 0)
        curl.setopt(pycurl.FORBID_REUSE, int(fresh))
        free.append(curl)
    left = len(urls)
    bodies: dict[pycurl.Curl, tuple[BytesIO, BytesIO]] = {}
    while left:
        while free and (url := next(waiting, None)):
            curl = free.pop()
            bodies[curl] = BytesIO(), BytesIO()
            curl.setopt(pycurl.URL, url)
            curl.setopt(pycurl.WRITEDATA, bodies[curl][0])
            curl.setopt(pycurl.WRITEHEADER, bodies[curl][1])
            multi.add_handle(curl)
        multi.perform()
        _, succeeded, failed = multi.info_read()
        assert not failed, failed
        for curl in succeeded:
            multi.remove_handle(curl)
            assert len(bodies.pop(curl)[0].getvalue()) == len(PAGE)
            free.append(curl)
            left -= 1
        if not succeeded:
            multi.select(1.0)


async def fetching(urls: list[str], port: int, *, fresh: bool, guarded: bool, each: Callable[[Response], None]) -> None:
    rules = None if guarded else ConnectTo.parse([f"::127.0.0.1:{port}"])
    fetcher = Fetcher(
        resolver=Fixed(everything=["127.0.0.1"]),
        user_agent="swath/0.1 (+https://example.com/about)",
        allow_private=not guarded,
        connect_to=rules,
        connections=AT_ONCE * 2,
        keep_alive=0 if fresh else 30,
    )
    waiting = iter(urls)

    async def worker() -> None:
        for url in waiting:
            response = await fetcher.fetch(url)
            assert response.status == 200, response
            each(response)

    async with fetcher:
        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


def archived(response: Response) -> None:
    record_id = warc.new_record_id()
    digest = warc.compute_payload_digest(response.body)
    common: dict[str, Any] = {
        "url": response.url,
        "time": response.started,
        "address": response.address,
        "protocol": response.protocol,
    }
    warc.build_response(record_id=record_id, head=response.head, body=response.body, digest=digest, **common)
    warc.build_request(record_id=warc.new_record_id(), sent=response.request, concurrent_to=record_id, **common)


def measured(name: str, pages: int, run: Callable[[], object]) -> None:
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(
        f"{name:34} {cpu / pages * 1e6:7.1f} µs CPU a page  {pages / cpu:8.0f} pages/CPU-s  {pages / wall:8.0f} pages/s"
    )


def on_uvloop(coroutine: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    async def main() -> None:
        await coroutine()

    return lambda: uvloop.run(main())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--fresh", action="store_true", help="a new connection for every page")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--serve")
    options = parser.parse_args()
    if options.serve is not None:
        uvloop.run(serve(options.serve))
        return
    with tempfile.TemporaryDirectory() as directory:
        if options.tls:
            certificate(Path(directory), "a.example")
        arguments = [sys.executable, "-m", "tests.crawl.cost", "--serve", directory if options.tls else ""]
        server = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            compare(int(server.stdout.readline()), options)
        finally:
            server.kill()
            server.wait()


def compare(port: int, options: argparse.Namespace) -> None:
    scheme = "https" if options.tls else "http"
    pages, fresh = options.pages, options.fresh
    urls = [f"{scheme}://h{number % HOSTS}.example/page/{number}" for number in range(pages)]
    with_port = [f"{scheme}://h{number % HOSTS}.example:{port}/page/{number}" for number in range(pages)]

    def nothing(response: Response) -> None:
        pass

    def fetched(given: list[str], *, guarded: bool, each: Callable[[Response], None]) -> Callable[[], None]:
        return on_uvloop(lambda: fetching(given, port, fresh=fresh, guarded=guarded, each=each))

    measured("bare pycurl", pages, lambda: bare(urls, port, fresh=fresh))
    measured("fetcher, connect-to", pages, fetched(urls, guarded=False, each=nothing))
    import swath.crawl.http.fetcher
    import swath.crawl.http.transfer

    for module in (swath.crawl.http.fetcher, swath.crawl.http.transfer):
        module.public = lambda address: True  # type: ignore[attr-defined]
    measured("fetcher, addresses guarded", pages, fetched(with_port, guarded=True, each=nothing))
    measured("fetcher and WARC", pages, fetched(with_port, guarded=True, each=archived))


if __name__ == "__main__":
    main()
