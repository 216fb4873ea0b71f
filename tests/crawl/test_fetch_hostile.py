"""Fetching from servers that do not behave: every failure is an answer of a known kind, within its limits."""

import asyncio
import gzip
import os
import random
import socket
import sys
import tracemalloc

import pytest

from swath.crawl.http.connect_to import ConnectTo, split_url
from swath.crawl.http.content_coding import decode_content
from swath.crawl.http.fetcher import SHORTAGE_SECONDS
from swath.crawl.http.response import Limits
from swath.crawl.http.transfer import PinnedAddress
from tests.crawl.test_fetch import a_fetcher, hello
from tests.crawl.web import Exchange, Fixed, serving

SHORT = Limits(connect=0.2, first_byte=0.2, total=0.4, size=10_000)
PATIENT = Limits(size=10_000)


async def forever(exchange: Exchange) -> None:
    await asyncio.Event().wait()


async def test_no_first_byte() -> None:
    async with serving(forever) as server, a_fetcher(limits=SHORT) as fetcher:
        responses = await asyncio.gather(*(fetcher.fetch(server.url()) for _ in range(20)))
        assert {(response.error, response.detail) for response in responses} == {
            ("timeout-first-byte", "no byte received within 0.2 s")
        }
        assert fetcher.in_flight == 0
        await server.until(lambda: server.open == 0)


async def test_no_tls_handshake() -> None:
    """A request that was never sent did not wait for a response."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server, a_fetcher(limits=Limits(connect=0.2, first_byte=5.0, total=5.0, size=10_000)) as fetcher:
        response = await fetcher.fetch(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    assert (response.error, response.detail) == ("timeout-connect", "no connection within 0.2 s")


async def test_a_first_byte_in_time_is_followed_by_the_limit_on_all() -> None:
    async def dribble(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            await exchange.send(b".")
            await asyncio.sleep(0.01)

    async with serving(dribble) as server, a_fetcher(limits=SHORT) as fetcher:
        response = await fetcher.fetch(server.url())
    assert (response.error, response.status, response.truncated) == (None, 200, "time")
    assert 0 < len(response.body) < 100_000
    assert set(response.body) == {ord(".")}


async def test_headers_that_never_end() -> None:
    async def dribble(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\n")
        while True:
            await exchange.send(b"X: y\r\n")
            await asyncio.sleep(0.01)

    async with serving(dribble) as server, a_fetcher(limits=SHORT) as fetcher:
        assert (await fetcher.fetch(server.url())).error == "timeout"


async def test_nobody_accepts() -> None:
    """A backlog that is full: the system neither refuses nor accepts."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening:
        port = listening.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        async with a_fetcher(limits=SHORT) as fetcher:
            response = await fetcher.fetch(f"http://a.example:{port}/")
        for filler in fillers:
            filler.close()
    assert response.error in ("timeout-connect", "timeout-first-byte")


async def test_nobody_listens() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        async with a_fetcher() as fetcher:
            response = await fetcher.fetch(f"http://a.example:{bound.getsockname()[1]}/")
    assert (response.error, response.status) == ("refused", 0)
    assert response.detail


async def test_the_second_address_is_tried() -> None:
    async with serving(hello) as server, a_fetcher(resolver=Fixed(everything=["127.0.0.9", "127.0.0.1"])) as fetcher:
        response = await fetcher.fetch(server.url())
        assert (response.status, response.address) == (200, "127.0.0.1")


async def test_a_name_that_does_not_exist() -> None:
    async with a_fetcher(resolver=Fixed()) as fetcher:
        response = await fetcher.fetch("http://nowhere.example/")
    assert (response.error, response.detail) == ("dns-negative", "no such host")
    assert (response.failure, response.reason) == ("dns", "dns: no such host")


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"", "reset"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "reset"),
        (b"garbage\r\n\r\nmore garbage", "protocol"),
        (random.Random(1).randbytes(500), "protocol"),
        (b"HTTP/1.1 banana\r\n\r\n", "protocol"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1_000 + b"\r\n", "too-large-headers"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", "too-large-headers"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200_000, "too-large-headers"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1_000_000, "too-large-headers"),
    ],
)
async def test_what_is_no_answer(sent: bytes, error: str) -> None:
    async def answer_with_it(exchange: Exchange) -> None:
        await exchange.send(sent)
        exchange.close()

    async with serving(answer_with_it) as server, a_fetcher(limits=PATIENT) as fetcher:
        response = await fetcher.fetch(server.url())
        assert (response.error, response.status, response.body) == (error, 0, b"")


@pytest.mark.parametrize("rudely", [False, True], ids=["closed", "reset"])
async def test_a_kept_connection_that_is_closed_under_a_request(rudely: bool) -> None:
    """Said apart, and asked for once: when to ask again is for who keeps the pace (INV-3)."""

    async def answer_once(exchange: Exchange) -> None:
        if exchange.path == "/first":
            await exchange.ok()
        elif rudely:
            exchange.reset()
        else:
            exchange.close()

    async with serving(answer_once) as server, a_fetcher(limits=PATIENT) as fetcher:
        assert (await fetcher.fetch(server.url("/first"))).status == 200
        assert (await fetcher.fetch(server.url("/second"))).error == "closed"
        assert (await fetcher.fetch(server.url("/third"), fresh=True)).error == "reset"
    assert [request.split()[1] for request in server.requests] == [b"/first", b"/second", b"/third"]


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nonly this\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nonly this\r\nzzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nonly this",
    ],
)
async def test_a_body_that_breaks_off(sent: bytes) -> None:
    async def break_off(exchange: Exchange) -> None:
        await exchange.send(sent)
        exchange.close()

    async with serving(break_off) as server, a_fetcher(limits=PATIENT) as fetcher:
        response = await fetcher.fetch(server.url())
    assert (response.error, response.status, response.truncated, response.body) == (
        None,
        200,
        "disconnect",
        b"only this",
    )


async def test_a_reset_in_mid_body() -> None:
    async def reset(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
        await arrived.wait()
        sock = exchange.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        exchange.reset()

    arrived = asyncio.Event()
    async with serving(reset) as server, a_fetcher(limits=PATIENT) as fetcher:
        fetch = asyncio.ensure_future(fetcher.fetch(server.url()))
        await server.until(lambda: len(server.requests) == 1)
        (transfer,) = fetcher._busy.values()
        async with asyncio.timeout(10):
            while not transfer.body:  # noqa: ASYNC110 - libcurl has no event for it
                await asyncio.sleep(0)
        arrived.set()
        response = await fetch
    assert (response.status, response.truncated, response.body) == (200, "disconnect", b"only this")


@pytest.mark.parametrize("length", [b"-5", b"99999999999999999999999", b"banana"])
async def test_lengths_that_make_no_sense_do_no_harm(length: bytes) -> None:
    async def lie(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\nbody" % length)
        exchange.close()

    async with serving(lie) as server, a_fetcher(limits=PATIENT) as fetcher:
        response = await fetcher.fetch(server.url())
    assert response.error in (None, "protocol", "other")
    assert response.body in (b"", b"body")


async def test_a_body_longer_than_it_says_is_cut_and_not_taken_for_the_next_answer() -> None:
    async def more(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nbodyHTTP/1.1 500 Smuggled\r\n\r\n")

    async with serving(more) as server, a_fetcher(limits=PATIENT) as fetcher:
        for _ in range(2):
            response = await fetcher.fetch(server.url())
            assert (response.status, response.body) == (200, b"bo")


@pytest.mark.parametrize("framed", [True, False])
@pytest.mark.parametrize(
    ("size", "truncated"), [(9_999, None), (10_000, None), (10_001, "length"), (10_000_000, "length")]
)
async def test_the_limit_on_size_is_exact(framed: bool, size: int, truncated: str | None) -> None:
    async def large(exchange: Exchange) -> None:
        head = b"HTTP/1.1 200 OK\r\n%s\r\n" % (b"Content-Length: %d\r\n" % size if framed else b"")
        await exchange.send(head, b"x" * size)
        exchange.close()

    async with serving(large) as server, a_fetcher(limits=PATIENT) as fetcher:
        response = await fetcher.fetch(server.url())
        assert (response.status, response.truncated, len(response.body)) == (200, truncated, min(size, 10_000))
        assert (await fetcher.fetch(server.url())).truncated == truncated


async def test_a_body_in_tiny_chunks_takes_no_more_memory_than_it_has_bytes() -> None:
    size = 500_000
    some = b"2\r\nab\r\n" * 10_000

    async def tiny(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[some] * 25, b"0\r\n\r\n")

    async with serving(tiny) as server, a_fetcher(limits=Limits(size=size)) as fetcher:
        tracemalloc.start()
        try:
            response = await fetcher.fetch(server.url())
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (response.truncated, response.body) == (None, b"ab" * (size // 2))
    assert most < 6 * size, f"{most:,} bytes"


async def test_a_bomb_is_stored_as_it_came_and_cut_when_decoded() -> None:
    bomb = gzip.compress(bytes(5_000_000))
    assert len(bomb) < 10_000

    async def send_bomb(exchange: Exchange) -> None:
        await exchange.ok(bomb, headers=b"Content-Encoding: gzip\r\n")

    async with serving(send_bomb) as server, a_fetcher(limits=PATIENT) as fetcher:
        response = await fetcher.fetch(server.url())
    assert (response.body, response.truncated) == (bomb, None)
    decoded = decode_content(response.body, response.headers.get_list("content-encoding"), limit=100_000)
    assert (len(decoded.body), decoded.truncated) == (100_000, True)


PRIVATE = ["127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.0.1", "::1", "fd00::1", "::ffff:127.0.0.1"]


@pytest.mark.parametrize("address", PRIVATE)
async def test_a_name_with_a_private_address_is_refused(address: str) -> None:
    async with a_fetcher(resolver=Fixed(everything=[address]), allow_private=False) as fetcher:
        response = await fetcher.fetch("http://a.example/")
    assert (response.error, response.detail) == ("private", f"a.example has no public address, but {address}")


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1", "[fe80::1]"])
async def test_a_private_address_in_a_url_is_refused(host: str) -> None:
    async with serving(hello) as server, a_fetcher(allow_private=False) as fetcher:
        response = await fetcher.fetch(f"http://{host}:{server.port}/")
    assert (response.error, server.connections) == ("private", 0)


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "0177.0.0.1", "127.1", "localhost", "localhost."])
async def test_other_spellings_do_not_get_past(host: str) -> None:
    """libcurl reads the numbers as an address whatever the resolver says, which is seen when it opens the socket."""
    names = Fixed(everything=["8.8.8.8"])
    async with serving(hello) as server, a_fetcher(resolver=names, allow_private=False, limits=SHORT) as fetcher:
        response = await fetcher.fetch(f"http://{host}:{server.port}/")
    assert server.connections == 0
    assert response.error is not None


async def test_private_addresses_are_left_out_where_there_are_public_ones() -> None:
    names = Fixed(everything=["127.0.0.1", "203.0.114.1", "::1"])
    async with a_fetcher(resolver=names, allow_private=False) as fetcher:
        target = split_url("http://a.example/")
        assert target is not None
        pin = await fetcher._pin(target.url, target)
    assert pin == PinnedAddress("a.example:80", "203.0.114.1")


async def test_connect_to_does_not_lift_the_refusal() -> None:
    async with serving(hello) as server:
        rules = ConnectTo.parse([f"::127.0.0.1:{server.port}"])
        async with a_fetcher(connect_to=rules, allow_private=False) as fetcher:
            assert (await fetcher.fetch("http://a.example/")).error == "private"
        assert server.connections == 0


async def test_a_name_that_changes_its_answer_after_the_check_gains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check is made to see a public address while libcurl is bound to a private one: as if the name had changed in
    between. What the socket is opened for is what counts."""
    async with serving(hello) as server, a_fetcher(allow_private=False) as fetcher:
        with monkeypatch.context() as patched:
            patched.setattr("swath.crawl.http.fetcher.is_public", lambda address: True)
            response = await fetcher.fetch(server.url())
        assert (response.error, response.detail) == ("private", "127.0.0.1 is not a public address")
        assert server.connections == 0


async def test_the_resolver_is_asked_once_and_libcurl_never_asks() -> None:
    names = Fixed({"localhost": ["203.0.114.1"]})
    async with serving(hello) as server, a_fetcher(resolver=names, limits=SHORT) as fetcher:
        response = await fetcher.fetch(server.url(host="localhost"))
        assert response.error in ("timeout-connect", "timeout-first-byte", "unreachable", "refused")
        assert (names.asked, server.connections) == (["localhost"], 0)
        names.table["localhost"] = ["127.0.0.1"]
        assert (await fetcher.fetch(server.url(host="localhost"))).status == 200


async def test_random_bytes_never_raise() -> None:
    draw = random.Random(5)
    starts = [b"", b"HTTP/1.1 ", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"]

    async def noise(exchange: Exchange) -> None:
        await exchange.send(draw.choice(starts) + draw.randbytes(draw.randint(0, 2_000)))
        exchange.close()

    async with serving(noise) as server, a_fetcher(limits=PATIENT, connections=20) as fetcher:
        responses = await asyncio.gather(*(fetcher.fetch(server.url()) for _ in range(300)))
    assert {response.error for response in responses} <= {
        None,
        "reset",
        "closed",
        "protocol",
        "too-large-headers",
        "other",
    }


async def test_connections_are_kept_again_when_the_shortage_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    async with serving(hello) as server, a_fetcher(connections=8, clock=lambda: now) as fetcher:
        with monkeypatch.context() as patched:
            patched.setattr("swath.crawl.http.transfer.classify_failure", lambda transfer, code: "descriptors")
            for _ in range(3):
                assert (await fetcher.fetch("http://a.example:1/")).error == "descriptors"
        kept = [fetcher._idle]
        for _ in range(4):
            await fetcher.fetch(server.url())
            now += SHORTAGE_SECONDS + 1
            await fetcher.fetch(server.url())
            kept.append(fetcher._idle)
    assert kept == [1, 2, 4, 8, 8]


OUT_OF_FILES = """
import asyncio, resource, sys
from tests.crawl.test_fetch import a_fetcher

async def main(port, guarded):
    names = {"allow_private": True}
    if guarded:  # the way sockets are opened when addresses are looked at
        import swath.crawl.http.fetcher, swath.crawl.http.transfer
        swath.crawl.http.fetcher.is_public = swath.crawl.http.transfer.is_public = lambda address: True
        names = {"allow_private": False}
    async with a_fetcher(connections=500, keep_alive=30, **names) as fetcher:
        urls = [f"http://h{number}.example:{port}/" for number in range(300)]
        await fetcher.fetch(urls[0])
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        first = await asyncio.gather(*map(fetcher.fetch, urls))
        short = [response for response in first if response.error == "descriptors"]
        # One at a time there is soon room again, though connections are kept.
        later = [await fetcher.fetch(url) for url in urls[:100]]
        assert fetcher._idle < 64
        errors = {response.error for response in first} - {None}
        print(len(short) > 100, errors, {response.error for response in later[50:]})
asyncio.run(main(int(sys.argv[1]), sys.argv[2] == "guarded"))
"""


@pytest.mark.parametrize("way", ["guarded", "open"])
async def test_running_out_of_descriptors_is_an_answer(way: str) -> None:
    async with serving(hello) as server:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            OUT_OF_FILES,
            str(server.port),
            way,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        output, errors = await child.communicate()
    assert output == b"True {'descriptors'} {None}\n", errors.decode()
