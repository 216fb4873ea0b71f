"""A proxy before the server that keeps replies back, and then breaks the connections."""

import asyncio
import tempfile
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlencode, urlsplit

CHUNK = 65_536
SOCKET = ".s.PGSQL.5432"


class HoldingProxy:
    """Passes requests on at all times; replies only while `pass_replies` is set, connections only while `accept` is."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._directory = tempfile.TemporaryDirectory(prefix="swath-proxy-")
        self._connections: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.pass_replies = True
        self.accept = True

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._serve, f"{self.directory}/{SOCKET}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.break_connections()
        await asyncio.gather(*self._connections)
        self._directory.cleanup()

    @property
    def directory(self) -> str:
        return self._directory.name

    @property
    def url(self) -> str:
        """The same URL, for a client that connects to the proxy."""
        query = parse_qs(self._url.query) | {"host": [self.directory], "port": ["5432"]}
        return self._url._replace(query=urlencode(query, doseq=True)).geturl()

    def break_connections(self) -> None:
        """End every connection on both sides, with what was kept back."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.accept:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        up_reader, up_writer = await self._connect()
        self._writers |= {writer, up_writer}
        await asyncio.gather(self._forward(reader, up_writer), self._forward(up_reader, writer, replies=True))

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if directory := parse_qs(self._url.query).get("host"):
            return await asyncio.open_unix_connection(f"{directory[0]}/{SOCKET}")
        return await asyncio.open_connection(self._url.hostname, self._url.port or 5432)

    async def _forward(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, replies: bool = False
    ) -> None:
        try:
            while data := await source.read(CHUNK):
                if not replies or self.pass_replies:
                    sink.write(data)
                    await sink.drain()
        except (ConnectionError, OSError):
            pass
        sink.transport.abort()
