"""The network: every host does to a client of raw sockets what its table of hosts says."""

import asyncio
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from swath.testing.web import Web, spawn
from swath.testing.web.expectation import PageState
from swath.testing.web.network import DNSAnswer, DNSCode, DNSServer, NetworkServer, expect_report, serve_network
from swath.testing.web.network.dns_server import RecordType, parse_question

WEB = Web(hosts=2, pages=6, faults=False, slow_seconds=0.05)
WAIT = 10.0
SOON = 0.3  # seconds in which an answer does not come
UNVERIFIED = ssl._create_unverified_context()


@pytest.fixture
async def network() -> AsyncIterator[NetworkServer]:
    async with serve_network(WEB) as served:
        yield served


async def ask(port: int, name: str, record_type: int = RecordType.A, *, wait: float = WAIT) -> tuple[int, list[str]]:
    """Ask a name server, and return the code and the addresses of its answer."""
    loop = asyncio.get_running_loop()
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    question = labels + b"\0" + struct.pack("!HH", record_type, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setblocking(False)
        client.connect(("127.0.0.1", port))
        await loop.sock_sendall(client, b"\x12\x34" + struct.pack("!HHHHH", 0x0100, 1, 0, 0, 0) + question)
        reply = await asyncio.wait_for(loop.sock_recv(client, 4096), wait)
    assert reply[:2] == b"\x12\x34"
    assert reply[12 : 12 + len(question)] == question
    (count,) = struct.unpack_from("!H", reply, 6)
    position, found = 12 + len(question), []
    for _ in range(count):
        kind, _, _, length = struct.unpack_from("!HHIH", reply, position + 2)
        packed = reply[position + 12 : position + 12 + length]
        found.append(socket.inet_ntop(socket.AF_INET6 if kind == RecordType.AAAA else socket.AF_INET, packed))
        position += 12 + length
    assert position == len(reply)
    return reply[3] & 15, found


async def get(network: NetworkServer, url: str, *, wait: float = WAIT) -> bytes:
    """Request a URL as a crawler does: ask for the name, connect, and read the response."""
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    code, addresses = await ask(network.ports.dns, host, wait=wait)
    if code or not addresses:
        raise LookupError(host)
    port = network.ports.http if scheme == "http" else network.ports.https
    tls = UNVERIFIED if scheme == "https" else None
    reader, writer = await asyncio.wait_for(asyncio.open_connection(addresses[0], port, ssl=tls), wait)
    try:
        writer.write(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        return await asyncio.wait_for(reader.read(), wait)
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(
    ("name", "code", "addresses"),
    [
        ("private.test", DNSCode.NO_ERROR, ["10.0.0.1"]),
        ("no-address.test", DNSCode.NO_ERROR, []),
        ("unknown.test", DNSCode.NXDOMAIN, []),
        ("mistyped.example", DNSCode.NXDOMAIN, []),
        ("dns-failure.test", DNSCode.SERVFAIL, []),
        ("h0001.demo.test", DNSCode.NO_ERROR, ["127.0.0.1"]),
        ("H0001.Demo.TEST", DNSCode.NO_ERROR, ["127.0.0.1"]),
    ],
)
async def test_names(network: NetworkServer, name: str, code: int, addresses: list[str]) -> None:
    assert await ask(network.ports.dns, name) == (code, addresses)


async def test_a_name_server_that_does_not_answer(network: NetworkServer) -> None:
    with pytest.raises(TimeoutError):
        await ask(network.ports.dns, "dns-silent.test", wait=SOON)


async def test_a_name_server_answers_for_the_family_that_is_asked_for() -> None:
    async with DNSServer({"both.test": DNSAnswer(("192.0.2.1", "192.0.2.2", "2001:db8::1"))}) as names:
        assert await ask(names.port, "both.test") == (0, ["192.0.2.1", "192.0.2.2"])
        assert await ask(names.port, "both.test", RecordType.AAAA) == (0, ["2001:db8::1"])
        assert await ask(names.port, "both.test", 16) == (0, [])
        assert names.questions["both.test"] == 3


@pytest.mark.parametrize("message", [b"", b"\0" * 12, b"\0" * 12 + b"\x3f", b"\0" * 12 + b"\x01\xff\0\0\x01\0\x01"])
def test_a_malformed_question_is_ignored(message: bytes) -> None:
    assert parse_question(message) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://fine.test/page/1",
        "https://fine.test/",
        "https://slow.test/",
        "http://broken-tls.test/",
        "http://http-only.test/",
        "https://https-only.test/",
        "https://www.www-only.test/",
        "http://robots-500.test/",
        "http://h0000.demo.test/",
        "https://h0000.demo.test/",
    ],
)
async def test_ports_that_serve(network: NetworkServer, url: str) -> None:
    assert (await get(network, url)).startswith(b"HTTP/1.1 200 ")
    assert [entry.url for entry in network.log.requests] == [url]


@pytest.mark.parametrize(
    "url", ["http://refused.test/", "https://refused.test/", "https://http-only.test/", "http://https-only.test/"]
)
async def test_ports_that_refuse(network: NetworkServer, url: str) -> None:
    with pytest.raises(ConnectionRefusedError):
        await get(network, url)


@pytest.mark.parametrize(
    "url",
    [
        "http://silent.test/", "https://silent.test/", "http://hanging.test/", "https://hanging.test/",
        "http://robots-silent.test/robots.txt",
    ],
)  # fmt: skip
async def test_ports_that_do_not_answer(network: NetworkServer, url: str) -> None:
    with pytest.raises(TimeoutError):
        await get(network, url, wait=SOON)


async def test_a_port_that_hangs_completes_no_connection(network: NetworkServer) -> None:
    _, addresses = await ask(network.ports.dns, "hanging.test")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.open_connection(addresses[0], network.ports.http), SOON)
    _, addresses = await ask(network.ports.dns, "silent.test")
    _, writer = await asyncio.open_connection(addresses[0], network.ports.http)
    writer.transport.abort()


async def test_a_port_that_does_not_speak_tls(network: NetworkServer) -> None:
    with pytest.raises(ssl.SSLError):
        await get(network, "https://broken-tls.test/")


async def test_a_vanishing_host_refuses_connections_after_some_requests(network: NetworkServer) -> None:
    for target in ("robots.txt", "", "page/1"):
        assert b"\r\n\r\n" in await get(network, f"https://vanishing.test/{target}")
    for scheme in ("http", "https"):
        with pytest.raises(ConnectionRefusedError):
            await get(network, f"{scheme}://vanishing.test/page/2")


async def test_all_hosts_that_have_pages_answer_on_the_main_address(network: NetworkServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", network.ports.http)
    writer.write(b"GET / HTTP/1.1\r\nHost: refused.test\r\nConnection: close\r\n\r\n")
    assert (await asyncio.wait_for(reader.read(), WAIT)).startswith(b"HTTP/1.1 200 ")
    writer.transport.abort()


def test_the_network_in_a_process_of_its_own() -> None:
    with spawn(WEB, network=True) as process:
        assert process.network is not None
        assert process.network.crawl_options[0] == "--dns-servers"
        plain = socket.create_connection(("127.0.0.1", process.network.https), WAIT)
        with plain, UNVERIFIED.wrap_socket(plain, server_hostname="fine.test") as secure:
            secure.sendall(b"GET / HTTP/1.1\r\nHost: fine.test\r\nConnection: close\r\n\r\n")
            assert secure.recv(100).startswith(b"HTTP/1.1 200 ")


async def test_reports(network: NetworkServer) -> None:
    """The report follows from the table of hosts; these examples are written by hand."""

    def report(*seeds: str, **options: bool) -> tuple[int, dict[str, str]]:
        found = expect_report(network.hosts, seeds, **options)
        return found.exit_code, {
            url: f"{state.value} {reason}".strip() for url, (state, reason) in found.outcomes.items()
        }

    fine = {f"https://fine.test/{page}": "fetched" for page in ("", "page/1", "page/2")}
    assert report("fine.test") == report("https://fine.test/") == (0, fine)
    assert report("https://unknown.test/") == (1, {"https://unknown.test/": "failed dns"})
    assert report("unknown.test") == (
        1,
        {
            "https://unknown.test/": "fallback https://www.unknown.test/",
            "https://www.unknown.test/": "failed dns",
        },
    )
    code, outcomes = report("www-only.test")
    assert (code, outcomes["https://www-only.test/"]) == (0, "fallback https://www.www-only.test/")
    assert outcomes["https://www.www-only.test/page/1"] == "fetched"
    code, outcomes = report("http-only.test", "https://http-only.test/")
    assert (code, outcomes["https://http-only.test/"]) == (1, "failed refused")
    code, outcomes = report("http-only.test")
    assert (code, outcomes["https://http-only.test/"]) == (0, "fallback http://http-only.test/")
    assert outcomes["http://http-only.test/"] == "fetched"
    assert report("https://robots-500.test/") == (1, {"https://robots-500.test/": "excluded robots"})
    assert report("https://robots-silent.test/") == (1, {"https://robots-silent.test/": "failed timeout"})
    assert report("fine.test", "private.test", allow_private=False) == (
        1,
        {"https://fine.test/": "excluded private", "https://private.test/": "excluded private"},
    )
    code, outcomes = report("http://vanishing.test/")
    assert code == 1
    assert outcomes["http://vanishing.test/page/2"] == "failed refused"
    all_hosts = expect_report(network.hosts, ["https://hub.test/"], any_host=True)
    assert all_hosts.count(PageState.FALLBACK) == 0
    assert {"https://hub.test/", "https://silent.test/"} <= all_hosts.outcomes.keys()
    assert "https://private.test/" not in all_hosts.outcomes


def test_a_port_in_use_is_reported_in_one_line() -> None:
    command = [sys.executable, "-m", "swath.testing.web", "--network", "--port"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = subprocess.run([*command, f"{port}"], capture_output=True, text=True, check=False, timeout=60)
    message = f"python -m swath.testing.web: cannot serve on port {port}: Address already in use\n"
    assert (ran.returncode, ran.stderr) == (1, message)
