"""A TCP proxy on loopback that understands nothing and cuts connections at seeded byte counts."""

import asyncio
import enum
import random
from types import TracebackType
from typing import Self

CHUNK = 65_536


class Cut(enum.Enum):
    REQUEST = "in the middle of what the client sends"
    SENT = "once all that the client has sent is on its way, before any of the reply arrives"
    REPLY = "in the middle of the reply, or before its first byte"


class CuttingProxy:
    """Every connection through it is cut, one way or another, until `most` have been: then it lets everything pass."""

    def __init__(self, port: int, random_: random.Random, *, most: int, bytes_between: int) -> None:
        self._upstream = port
        self._random = random_
        self._left = most
        self._bytes_between = bytes_between
        self._server: asyncio.Server | None = None
        self._open: set[_Connection] = set()
        self.cuts: list[Cut] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._open:
            connection.cut()
        async with asyncio.timeout(10):
            while self._open:
                await next(iter(self._open)).ended.wait()

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            writer.transport.abort()
            return
        connection = _Connection(self, (reader, writer), (up_reader, up_writer))
        self._open.add(connection)
        try:
            await connection.carry()
        finally:
            self._open.discard(connection)
            connection.ended.set()

    def next_cut(self) -> tuple[Cut, int] | None:
        """What becomes of the next connection, and after how many bytes."""
        if self._left == 0:
            return None
        self._left -= 1
        return self._random.choice(list(Cut)), self._random.randrange(self._bytes_between)


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Connection:
    def __init__(self, proxy: CuttingProxy, client: Streams, server: Streams) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._plan = proxy.next_cut()
        self.ended = asyncio.Event()

    async def carry(self) -> None:
        """Carry bytes both ways until one side ends or the cut is reached; then both ends are cut off."""
        ways = [
            asyncio.create_task(self._forward(self._client[0], self._server[1], (Cut.REQUEST, Cut.SENT))),
            asyncio.create_task(self._forward(self._server[0], self._client[1], (Cut.REPLY,))),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self.cut()

    def cut(self) -> None:
        self._client[1].transport.abort()
        self._server[1].transport.abort()

    async def _forward(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, cuts: tuple[Cut, ...]) -> None:
        kind, left = self._plan if self._plan is not None and self._plan[0] in cuts else (None, 0)
        try:
            while data := await source.read(CHUNK):
                if kind is not None and len(data) >= left:
                    if kind is not Cut.REPLY or left:
                        sink.write(data if kind is Cut.SENT else data[:left])
                        await sink.drain()
                    self._proxy.cuts.append(kind)
                    return
                left -= len(data)
                sink.write(data)
                await sink.drain()
        except (ConnectionError, OSError):
            return
