"""The server: connections, what it logs, and the process around it."""

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.testing.web import RequestLog, Web, WebServer, find_too_close, read_log, serve, spawn
from swath.testing.web.process import plan_from_json, plan_to_json
from swath.testing.web.request_head import parse_head
from tests.testing.client import PATIENCE, connect, fetch, receive

WEB = Web(
    hosts=3,
    pages=30,
    faults=frozenset({"slow", "large"}),
    size=(600, 2000),
    links=(2, 5),
    slow_seconds=0.1,
    huge_bytes=15_000_000,
)


def request(host: str, target: str, *lines: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", f"Host: {host}", *lines, "", ""]).encode()


async def test_requests_on_one_connection_are_answered_in_order() -> None:
    async with serve(WEB) as served, connect(served) as (reader, writer):
        asked = ["/robots.txt", "/", "/no-such-page"]
        writer.write(b"".join(request("h0000.demo.test", target) for target in asked))
        assert (await receive(reader)).status == 200
    assert [entry.target for entry in served.log.requests] == asked
    assert [entry.status for entry in served.log.requests] == [200, 200, 404]


async def test_a_slow_answer_holds_back_the_next_one_on_its_connection() -> None:
    async with serve(WEB) as served, connect(served) as (reader, writer):
        writer.write(request("slow.demo.test", "/first-byte") + request("h0000.demo.test", "/no-such-page"))
        assert b"Slowly" in await asyncio.wait_for(reader.readuntil(b"</html>"), PATIENCE)
        assert b"404 Not Found" in await asyncio.wait_for(reader.readuntil(b"Page not found"), PATIENCE)
    slow, quick = served.log.requests
    assert slow.ended <= quick.started
    assert slow.ended - slow.started >= 0.1


async def test_a_request_may_come_in_pieces() -> None:
    async with serve(WEB) as served, connect(served) as (reader, writer):
        for byte in request("H0000.DEMO.TEST:80", "/no-such-page"):
            writer.write(bytes([byte]))
            await writer.drain()
        assert (await receive(reader)).status == 404
    assert served.log.requests[0].url == "http://h0000.demo.test/no-such-page"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"rubbish\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: h0000.demo.test\r\n\r\n", 405),
        (b"GET http://h0000.demo.test/no-such-page HTTP/1.1\r\nHost: proxy\r\n\r\n", 404),
        (b"GET http://h0000.demo.test HTTP/1.1\r\n\r\n", 200),
        (request("nobody.demo.test", "/"), 404),
    ],
)
async def test_odd_requests(sent: bytes, status: int) -> None:
    async with serve(WEB) as served, connect(served) as (reader, writer):
        writer.write(sent)
        assert (await receive(reader)).status == status


@given(st.binary())
def test_no_request_is_too_odd_to_be_read(head: bytes) -> None:
    for sent in (head, b"GET " + head + b" HTTP/1.1", b"GET / HTTP/1.1\r\nHost: " + head):
        request = parse_head(sent, scheme="http")
        assert request is None or request.host


@pytest.mark.parametrize("lines", [b"HTTP/1.1\r\nConnection: close", b"HTTP/1.0"])
async def test_the_connection_is_closed_for_clients_that_want_it(lines: bytes) -> None:
    async with serve(WEB) as served, connect(served) as (reader, writer):
        writer.write(b"GET / " + lines + b"\r\nHost: h0000.demo.test\r\n\r\n")
        assert b"</html>" in await asyncio.wait_for(reader.read(), PATIENCE)


async def test_head_has_the_length_and_no_body() -> None:
    async with serve(WEB) as served:
        whole = await fetch(served, "http://slow.demo.test/")
        head = await fetch(served, "http://slow.demo.test/", method="HEAD")
    assert head.headers == whole.headers
    assert head.body == b""


async def test_a_client_that_leaves_is_logged_when_it_leaves() -> None:
    async with serve(WEB) as served:
        async with connect(served) as (_, writer):
            writer.write(request("slow.demo.test", "/hang"))
            await fetch(served, "http://h0000.demo.test/")  # by now the server has the request
            left_at = time.monotonic()
        await fetch(served, "http://h0000.demo.test/robots.txt")  # by now the server knows that the client has left
        _, entry, _ = served.log.requests
    assert (entry.target, entry.complete, entry.status) == ("/hang", False, 0)
    assert entry.started <= left_at <= entry.ended


async def test_an_answer_has_ended_when_its_last_byte_has_left() -> None:
    async with serve(WEB) as served, connect(served, limit=1024) as (reader, writer):
        writer.write(request("large.demo.test", "/body"))
        head = await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.2)  # the client does not read, so the answer cannot end
        assert served.log.requests == []
        await asyncio.wait_for(reader.readexactly(int(head.split()[-1])), PATIENCE)
    assert [entry.complete for entry in served.log.requests] == [True]


async def test_a_client_that_leaves_a_large_answer(caplog: pytest.LogCaptureFixture) -> None:
    async with serve(WEB) as served, connect(served) as (reader, writer):
        writer.write(request("large.demo.test", "/body"))
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()
        await fetch(served, "http://h0000.demo.test/")
    assert [entry.complete for entry in served.log.requests if entry.target == "/body"] == [False]
    assert caplog.records == []


async def test_the_log_shows_who_comes_too_soon() -> None:
    async with serve(WEB) as served:
        await fetch(served, "http://h0000.demo.test/")
        await fetch(served, "http://h0000.demo.test/robots.txt")
        await fetch(served, "http://h0001.demo.test/robots.txt")
    (pair,) = find_too_close(served.log.requests, 60.0)
    assert pair.second.target == "/robots.txt"
    assert pair.first.agent == "tests"


async def test_serving_ends_though_clients_hang() -> None:
    async with AsyncExitStack() as clients:
        async with serve(WEB) as served:
            _, writer = await clients.enter_async_context(connect(served))
            writer.write(request("slow.demo.test", "/hang"))
            await fetch(served, "http://h0000.demo.test/")  # by now the server has the request
        assert [entry.target for entry in served.log.requests] == ["/", "/hang"]


async def test_it_listens_on_loopback_only() -> None:
    async with serve(WEB) as served:
        with socket.socket() as probe:
            probe.settimeout(1)
            assert probe.connect_ex(("127.0.0.2", served.port)) != 0


async def test_pages_of_a_slow_web_come_late_and_all_at_once() -> None:
    web = Web(hosts=100, pages=100, faults=False, latency_seconds=0.3, size=(300, 600), links=(1, 2))
    began = time.monotonic()
    async with serve(web) as served:
        got = await asyncio.gather(*(fetch(served, url) for url in web.urls_to_archive()))
    assert {each.status for each in got} == {200}
    assert min(entry.ended - entry.started for entry in served.log.requests) >= 0.3
    assert time.monotonic() - began < 100 * 0.3 / 2


async def test_a_web_over_tls(tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=demo.test"]
    subprocess.run(command, check=True, capture_output=True)  # noqa: ASYNC221  (nothing else runs yet)
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(cert, key)
    theirs = ssl.create_default_context(cafile=str(cert))
    theirs.check_hostname = False
    web = Web(hosts=2, pages=10, faults=False, scheme="https", size=(600, 2000))
    async with serve(web, ssl=ours) as served:
        got = await fetch(served, web.seeds[0], context=theirs)
        assert got.status == 200
        assert served.requested_urls == set(web.seeds) == {"https://h0000.demo.test/"}


@contextmanager
def process(*arguments: str, **more: Any) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    command = [sys.executable, "-W", "error", "-m", "swath.testing.web", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **more
    ) as it:
        try:
            assert it.stdout is not None
            line = it.stdout.readline()
            assert line, it.communicate()[1]
            yield it, json.loads(line)
        finally:
            if it.poll() is None:
                it.kill()


def test_an_unknown_kind_of_fault_is_an_error_of_the_command() -> None:
    command = [sys.executable, "-m", "swath.testing.web", "--only", "bogus"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "error: unknown kinds of faults: bogus. Use some of statuses, " in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_web_without_hosts_is_an_error_of_the_command() -> None:
    command = [sys.executable, "-m", "swath.testing.web", "--hosts", "0"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ran.returncode == 2
    assert "error: pages=1000, hosts=0: a web needs at least one host" in ran.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_process_serves_until_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "requests.jsonl"
    with process("--hosts", "2", "--pages", "10", "--seed", "7", "--no-faults", "--log", str(path)) as (it, ready):
        web = Web(seed=7, hosts=2, pages=10, faults=False)
        assert ready["seeds"] == list(web.seeds)
        assert ready["connect_to"] == f"::127.0.0.1:{ready['port']}"
        served = WebServer(web, ready["port"], RequestLog())
        got = await fetch(served, web.seeds[0])
        assert got.unpacked() == page_body(web)
        (entry,) = read_log(path)
        assert (entry.url, entry.status) == (web.seeds[0], 200)
        assert time.monotonic() - entry.started < PATIENCE
        it.send_signal(number)
        assert it.wait(PATIENCE) == 0
        assert it.stderr is not None
        assert it.stderr.read() == ""


def page_body(web: Web) -> bytes:
    page = web.page(web.seeds[0])
    assert page is not None
    return page.body()


def test_a_process_ends_with_its_standard_input() -> None:
    arguments = ("--hosts", "2", "--pages", "10", "--only", "slow,dead", "--until-eof")
    with process(*arguments, stdin=subprocess.PIPE) as (it, ready):
        assert ready["hosts"] == 2 + 3
        assert it.poll() is None
        assert it.stdin is not None
        it.stdin.close()
        assert it.wait(PATIENCE) == 0


async def test_a_web_in_a_process_of_its_own(tmp_path: Path) -> None:
    web = Web(seed=3, hosts=2, pages=10, faults=frozenset({"dead"}), size=(300, 900), skew=0.5, trap_depth=7)
    with spawn(web, log=tmp_path / "log.jsonl") as spawned:
        assert plan_from_json(plan_to_json(web)) == web
        assert spawned.requests == []
        got = await fetch(WebServer(web, spawned.port, RequestLog()), web.seeds[0])
        assert got.status == 200
        assert [entry.url for entry in spawned.requests] == [web.seeds[0]]
    with pytest.raises(ProcessLookupError):
        os.kill(spawned.pid, 0)


def test_a_process_that_cannot_start_says_so() -> None:
    with pytest.raises(RuntimeError, match="did not start"), spawn(Web(faults=frozenset({"gremlins"}))):
        pass


def test_the_truth_can_be_printed() -> None:
    command = [
        sys.executable,
        "-m",
        "swath.testing.web",
        "--expectations",
        "--hosts",
        "2",
        "--pages",
        "10",
        "--no-faults",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    lines = [json.loads(line) for line in subprocess.check_output(command, env=environment).splitlines()]
    web = Web(hosts=2, pages=10, faults=False)
    assert {line["url"] for line in lines if line["requirement"] == "must"} == web.urls_to_archive()
