"""A client that looks at the bytes: it asks, and says what came and how it ended."""

import asyncio
import gzip
import ssl
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from swath.testing.web import WebServer

PATIENCE = 10.0  # seconds after which an answer that should come fails the test


@dataclass(frozen=True, slots=True)
class Got:
    """What came. `end`: "whole" as its length or chunks say, "garbled" in its chunks, "closed" or "reset" by
    the server, or "silent"."""

    status: int
    headers: dict[str, str]
    body: bytes
    end: str
    raw: bytes = field(repr=False, default=b"")

    def unpacked(self) -> bytes:
        match self.headers.get("content-encoding"):
            case "gzip" | "x-gzip":
                return gzip.decompress(self.body)
            case "deflate":
                return zlib.decompress(self.body)
            case None:
                return self.body
            case other:
                raise AssertionError(f"the client did not ask for {other}")


@asynccontextmanager
async def connect(
    served: WebServer, **options: Any
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection that is closed when the block ends, also when the test fails in it.

    The garbage collector would find an open one during a later test, which then fails.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port, **options)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(OSError):  # the server has closed or reset it before
            await writer.wait_closed()


async def fetch(
    served: WebServer,
    url: str,
    *,
    accept: str = "gzip, deflate",
    method: str = "GET",
    wait: float = PATIENCE,
    context: ssl.SSLContext | None = None,
) -> Got:
    """One request on a connection of its own."""
    host, slash, path = url.partition("://")[2].partition("/")
    async with connect(served, ssl=context) as (reader, writer):
        request = (
            f"{method} {slash}{path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: tests\r\nAccept-Encoding: {accept}\r\n"
        )
        writer.write(f"{request}\r\n".encode())
        return await receive(reader, wait=wait, bodiless=method == "HEAD")


async def receive(reader: asyncio.StreamReader, *, wait: float = PATIENCE, bodiless: bool = False) -> Got:
    """One answer from a connection."""
    raw = bytearray()
    end = ""
    while not end:
        if _whole(bytes(raw), bodiless):
            end = "whole"
            break
        try:
            async with asyncio.timeout(wait):  # which loses no cancellation from outside, as wait_for does
                data = await reader.read(1 << 20)
        except TimeoutError:
            end = "silent"
        except ConnectionResetError:
            end = "reset"
        else:
            raw += data
            if not data:
                end = "closed"
    return _read(bytes(raw), end)


def _split(raw: bytes) -> tuple[bytes, bytes]:
    """Head and body of the final answer."""
    head, _, body = raw.partition(b"\r\n\r\n")
    while head.startswith(b"HTTP/1.1 1") and body:
        head, _, body = body.partition(b"\r\n\r\n")
    return head, body


def _headers(head: bytes) -> dict[str, str]:
    lines = head.decode("utf-8", "replace").split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _whole(raw: bytes, bodiless: bool) -> bool:
    if b"\r\n\r\n" not in raw:
        return False
    head, body = _split(raw)
    headers = _headers(head)
    if bodiless or head[9:12] in (b"204", b"304"):
        return True
    if headers.get("transfer-encoding") == "chunked":
        return body.startswith(b"0\r\n") or b"\r\n0\r\n\r\n" in body or b"\r\n0\r\nX-" in body
    return headers.get("content-length", "?").isdigit() and len(body) >= int(headers["content-length"])


def _read(raw: bytes, end: str) -> Got:
    head, body = _split(raw)
    headers = _headers(head)
    if headers.get("transfer-encoding") == "chunked" and end == "whole" and body:
        try:
            body = _unchunked(body)
        except ValueError:
            end = "garbled"
    status = head[9:12]
    return Got(int(status) if head.startswith(b"HTTP/1.") and status.isdigit() else 0, headers, body, end, raw)


def _unchunked(body: bytes) -> bytes:
    out = bytearray()
    while True:
        size, _, body = body.partition(b"\r\n")
        length = int(size.split(b";")[0], 16)
        if length == 0:
            return bytes(out)
        out += body[:length]
        body = body[length + 2 :]
