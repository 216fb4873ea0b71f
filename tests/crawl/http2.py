"""Just enough of an HTTP/2 server: it answers every stream alike, and understands no headers."""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
REFUSED_STREAM = 7
STATUS_200 = b"\x88"  # an index into the static table of HPACK


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack("!I", len(payload))[1:] + bytes((kind, flags)) + struct.pack("!I", stream) + payload


def field(name: bytes, value: bytes) -> bytes:
    """A header as HPACK's literal without indexing."""
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


@asynccontextmanager
async def serving_http2(
    context: ssl.SSLContext,
    body: bytes,
    *,
    reset: bool = False,
    refuse: bool = False,
    received: dict[int, bytes] | None = None,
) -> AsyncIterator[int]:
    """Serve `body` to every request, or only half of it before a reset, or refuse them all; yields the port.

    `received` gets the body of each stream.
    """
    context.set_alpn_protocols(["h2"])
    tasks: set[asyncio.Task[None]] = set()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            assert await reader.readexactly(len(PREFACE)) == PREFACE
            writer.write(frame(SETTINGS, 0, 0))
            while True:
                head = await reader.readexactly(9)
                payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
                kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
                if received is not None and kind in (HEADERS, DATA):
                    received[stream] = received.get(stream, b"") + (payload if kind == DATA else b"")
                if kind == DATA and payload:
                    for number in (0, stream):
                        writer.write(frame(WINDOW_UPDATE, 0, number, struct.pack("!I", len(payload))))
                if kind == SETTINGS and not flags & ACK:
                    writer.write(frame(SETTINGS, ACK, 0))
                elif kind == HEADERS and refuse:
                    writer.write(frame(RST_STREAM, 0, stream, struct.pack("!I", REFUSED_STREAM)))
                elif kind in (HEADERS, DATA) and flags & END_STREAM:
                    block = STATUS_200 + field(b"content-type", b"text/html") + field(b"x-two", b"a")
                    writer.write(frame(HEADERS, END_HEADERS, stream, block))
                    if reset:
                        writer.write(frame(DATA, 0, stream, body[: len(body) // 2]))
                        writer.write(frame(RST_STREAM, 0, stream, struct.pack("!I", 2)))
                    else:
                        writer.write(frame(DATA, END_STREAM, stream, body))
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(converse(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listening = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=context)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
