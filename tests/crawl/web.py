"""A server of raw sockets, whose answers are whatever a test writes; and names for it."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from swath.crawl.http.resolver import ResolveError

Answering = Callable[["Exchange"], Awaitable[None]]


class Exchange:
    """One request and the way to answer it."""

    def __init__(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self.method = request.partition(b" ")[0].decode("latin-1")
        self.body = request.partition(b"\r\n\r\n")[2]
        self.path = request.split(b" ", 2)[1].decode("latin-1")
        self.host = request.lower().partition(b"\r\nhost: ")[2].partition(b"\r\n")[0].decode("latin-1")
        self.writer = writer

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    async def ok(self, body: bytes = b"hello", *, headers: bytes = b"") -> None:
        await self.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n" % (len(body), headers), body)

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        self.writer.transport.abort()


class Server:
    """What a server saw."""

    def __init__(self) -> None:
        self.port = 0
        self.requests: list[bytes] = []
        self.connections = 0
        self.open = 0
        self.heard = asyncio.Event()
        self.hung_up = asyncio.Event()

    def url(self, path: str = "/", *, host: str = "a.example", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.heard.clear()
            self.hung_up.clear()
            waits = [asyncio.ensure_future(event.wait()) for event in (self.heard, self.hung_up)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()


@asynccontextmanager
async def serving(answer: Answering, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Serve until the block ends."""
    server = Server()
    tasks: set[asyncio.Task[None]] = set()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        server.open += 1
        try:
            while not writer.is_closing():
                request = await reader.readuntil(b"\r\n\r\n")
                length = request.lower().partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0]
                request += await reader.readexactly(int(length or 0))
                server.requests.append(request)
                server.heard.set()
                answering = asyncio.ensure_future(answer(Exchange(request, writer)))
                gone = asyncio.ensure_future(reader.read(1))  # a client that is not done asks nothing further
                await asyncio.wait([answering, gone], return_when=asyncio.FIRST_COMPLETED)
                if not answering.done():
                    answering.cancel()
                    return
                await answering
                if gone.done():
                    return
                gone.cancel()
                await asyncio.wait([gone])
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            server.open -= 1
            server.hung_up.set()
            writer.close()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(converse(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listening = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=tls, backlog=2_000, limit=1 << 20)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Fixed:
    """Names from a table, whose answers can change."""

    def __init__(self, table: dict[str, Sequence[str]] | None = None, *, everything: Sequence[str] = ()) -> None:
        self.table = table or {}
        self.everything = everything
        self.asked: list[str] = []

    async def resolve(self, host: str, /) -> Sequence[str]:
        self.asked.append(host)
        found = self.table.get(host, self.everything)
        if not found:
            raise ResolveError("nxdomain", "no such host")
        return found


LOCAL = Fixed(everything=["127.0.0.1"])


def certificate(directory: Path, *hosts: str) -> tuple[Path, ssl.SSLContext]:
    """A certificate authority of our own: its file, and a server's context with a certificate of it."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=directory)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test CA", "-days", "2")
    openssl("req", *key, "-keyout", "host.key", "-out", "host.csr", "-subj", f"/CN={hosts[0]}")
    names = ",".join(f"DNS:{host}" for host in hosts)
    (directory / "names").write_text(f"subjectAltName={names}\n")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
    openssl("x509", "-req", "-in", "host.csr", "-out", "host.pem", *signing)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "host.pem", directory / "host.key")
    return directory / "ca.pem", context
