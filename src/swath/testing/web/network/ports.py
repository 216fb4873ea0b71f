"""Listeners that serve a host, refuse connections, stay silent, hang, or do not speak TLS."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from typing import assert_never

from swath.testing.web.network.demo_host import Port
from swath.testing.web.server import BACKLOG

QUEUED = 4  # connections that wait at a port that hangs: more than its queue holds
NOT_TLS = b"HTTP/1.0 400 Bad Request\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Listener:
    """A port that is open. After `close` it refuses connections."""

    port: int
    close: Callable[[], None]


@asynccontextmanager
async def open_port(
    behaviour: Port, address: tuple[str, int], serve: Callable[[], asyncio.Protocol], context: ssl.SSLContext | None
) -> AsyncIterator[Listener]:
    """Open a port until the block ends; number 0 selects a free one."""
    match behaviour:
        case Port.SERVE:
            listening = _listen(address, serve, context)
        case Port.SILENT:
            listening = _listen_silently(address, _SilentConnection)
        case Port.NOT_TLS:
            listening = _listen_silently(address, _NotTLSConnection)
        case Port.REFUSE:
            listening = _refuse(address)
        case Port.HANG:
            listening = _hang(address)
        case _:
            assert_never(behaviour)
    async with listening as listener:
        yield listener


@asynccontextmanager
async def _listen(
    address: tuple[str, int], make: Callable[[], asyncio.Protocol], context: ssl.SSLContext | None
) -> AsyncIterator[Listener]:
    server = await asyncio.get_running_loop().create_server(make, *address, backlog=BACKLOG, ssl=context)
    try:
        yield Listener(server.sockets[0].getsockname()[1], server.close)
    finally:
        server.close()


@asynccontextmanager
async def _listen_silently(address: tuple[str, int], kind: "type[_SilentConnection]") -> AsyncIterator[Listener]:
    transports: set[asyncio.BaseTransport] = set()
    try:
        async with _listen(address, lambda: kind(transports), None) as listener:
            yield listener
    finally:
        for transport in list(transports):
            transport.close()


@asynccontextmanager
async def _refuse(address: tuple[str, int]) -> AsyncIterator[Listener]:
    """Reserve the port without listening, so that no other process can."""
    with closing(_bind(address)) as reserved:
        yield Listener(address[1], reserved.close)


@asynccontextmanager
async def _hang(address: tuple[str, int]) -> AsyncIterator[Listener]:
    """Fill the queue of a port. The kernel then ignores further connection requests."""
    with ExitStack() as stack:
        listener = stack.enter_context(closing(_bind(address)))
        listener.listen(0)
        for _ in range(QUEUED):
            waiting = stack.enter_context(closing(socket.socket()))
            waiting.setblocking(False)
            waiting.connect_ex(address)
        yield Listener(address[1], listener.close)


def _bind(address: tuple[str, int]) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(address)
    return bound


class _SilentConnection(asyncio.Protocol):
    """Accepts a connection and never sends anything."""

    def __init__(self, transports: set[asyncio.BaseTransport]) -> None:
        self._transports = transports
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transports.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._transports.discard(self._transport)


class _NotTLSConnection(_SilentConnection):
    """Answers a TLS handshake in plain text."""

    def data_received(self, data: bytes) -> None:
        if isinstance(self._transport, asyncio.WriteTransport):
            self._transport.write(NOT_TLS)
            self._transport.close()
