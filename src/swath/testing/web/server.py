"""Serve a web on one loopback port, byte by byte as its scripted responses say."""

import asyncio
import socket
import ssl as tls
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import assert_never

from swath.testing.web.request_head import END_OF_HEAD, MAX_BODY_BYTES, MAX_HEAD_BYTES, RequestHead, parse_head
from swath.testing.web.request_log import LoggedRequest, RequestLog
from swath.testing.web.scripted_response import NOT_FOUND, End, Repeat, Request, ScriptedResponse, Wait, reply
from swath.testing.web.site import Site
from swath.testing.web.web import Web

LOOPBACK = "127.0.0.1"
BACKLOG = 4096
AT_ONCE_BYTES = 1 << 16  # the kernel buffers this much in one call
MAX_COUNTED = 100_000  # limit on targets with a request count

BAD_REQUEST = replace(reply(400, b"<p>Bad request.</p>"), end=End.CLOSE)
NOT_ALLOWED = reply(405, b"<p>The method is not allowed.</p>", headers=[("Allow", "GET, HEAD")])


@dataclass(frozen=True, slots=True)
class WebServer:
    """A running server of a web."""

    web: Web
    port: int
    log: RequestLog

    @property
    def connect_to(self) -> str:
        """The value for `--connect-to` of curl and swath. It maps every host to this server."""
        return f"::{LOOPBACK}:{self.port}"

    @property
    def requested_urls(self) -> frozenset[str]:
        """The URLs of all requests so far."""
        return frozenset(entry.url for entry in self.log.requests)


@asynccontextmanager
async def serve(
    web: Web, *, port: int = 0, log: RequestLog | None = None, ssl: tls.SSLContext | None = None
) -> AsyncIterator[WebServer]:
    """Serve on 127.0.0.1 until the block ends. Port 0 selects a free port. A log that the caller passes stays open."""
    ours = RequestLog() if log is None else log
    state = ServerState(web.sites, ours)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: HTTPConnection(state, web.scheme), LOOPBACK, port, backlog=BACKLOG, ssl=ssl
    )
    try:
        yield WebServer(web, server.sockets[0].getsockname()[1], ours)
    finally:
        server.close()
        await state.close_connections()
        await server.wait_closed()
        if log is None:
            ours.close()


class ServerState:
    """The state of a server: request counts and open connections."""

    def __init__(self, sites: Mapping[str, Site], log: RequestLog) -> None:
        self.log = log
        self.connections: set[HTTPConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.host_requests: Counter[str] = Counter()
        self._sites = sites
        self._target_requests: Counter[tuple[str, str]] = Counter()

    def respond(self, request: RequestHead, body: bytes) -> ScriptedResponse:
        """Count a request and return the response to it. Unknown hosts get a 404."""
        site = self._sites.get(request.host)
        if site is None:
            return NOT_FOUND
        if request.method not in (("GET", "HEAD", "POST") if site.takes_posts else ("GET", "HEAD")):
            return NOT_ALLOWED
        nth, again = self.host_requests[request.host], 0
        self.host_requests[request.host] += 1
        if site.counts_targets and len(self._target_requests) < MAX_COUNTED:
            again = self._target_requests[request.host, request.target]
            self._target_requests[request.host, request.target] += 1
        accepted, now = request.accept_encoding, time.time()
        return site.respond(
            Request(request.host, request.target, nth, again, accepted, now, method=request.method, body=body)
        )

    async def close_connections(self) -> None:
        for connection in list(self.connections):
            connection.abort()
        await asyncio.gather(*self.tasks, return_exceptions=True)


class HTTPConnection(asyncio.Protocol):
    """One client connection. Responses of one piece are written immediately, others by a task."""

    def __init__(self, state: ServerState, scheme: str) -> None:
        self._state = state
        self._scheme = scheme
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._arrived = 0.0
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # With these limits, writing is paused exactly while bytes are unsent. With high=0, TLS would always be paused.
        transport.set_write_buffer_limits(high=1, low=0)
        self._state.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(self)
        self._transport = None
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if not self._buffer:
            self._arrived = time.monotonic()
        self._buffer += data
        self._read()

    def _read(self) -> None:
        while self._task is None and self._transport is not None and not self._transport.is_closing():
            end = self._buffer.find(END_OF_HEAD)
            if end < 0:
                if len(self._buffer) > MAX_HEAD_BYTES:
                    self._transport.abort()
                return
            request = parse_head(bytes(self._buffer[:end]), scheme=self._scheme)
            start = end + len(END_OF_HEAD)
            length = 0 if request is None else request.length
            if len(self._buffer) < start + length:
                if length > MAX_BODY_BYTES:
                    self._transport.abort()
                return
            body = bytes(self._buffer[start : start + length])
            del self._buffer[: start + length]
            self._respond(self._transport, request, body)

    def _respond(self, transport: asyncio.Transport, request: RequestHead | None, body: bytes) -> None:
        if request is None:
            request, response = RequestHead("", "", "", "", "", False), BAD_REQUEST
        else:
            response = self._state.respond(request, body)
        if not request.keep_alive and response.end is End.KEEP:
            response = replace(response, end=End.CLOSE)
        if request.method == "HEAD":
            response = _drop_body(response)
        match response:
            case ScriptedResponse(steps=(bytes(whole),), end=End.KEEP) if (
                len(whole) <= AT_ONCE_BYTES and self._writable.is_set()
            ):
                self._record(request, response, complete=True)
                transport.write(whole)
            case _:
                self._start(transport, request, response)

    def _start(self, transport: asyncio.Transport, request: RequestHead, response: ScriptedResponse) -> None:
        task = asyncio.get_running_loop().create_task(self._run_steps(transport, request, response))
        self._task = task
        self._state.tasks.add(task)
        task.add_done_callback(self._state.tasks.discard)

    async def _run_steps(self, transport: asyncio.Transport, request: RequestHead, response: ScriptedResponse) -> None:
        """Perform the steps of a response one by one. The task is cancelled when the client disconnects."""
        recorded = False
        try:
            await self._writable.wait()
            *before, last = response.steps or (b"",)
            for step in before:
                await self._run_step(transport, step)
            if isinstance(last, bytes):
                await self._write(transport, last[:-1])
                self._record(request, response, complete=True)
                recorded = True
                await self._write(transport, last[-1:])
            else:
                await self._run_step(transport, last)
                self._record(request, response, complete=True)
                recorded = True
        except ConnectionAbortedError:
            return
        finally:
            if not recorded:
                self._record(request, response, complete=False)
            self._task = None
        self._finish(transport, response.end)

    async def _run_step(self, transport: asyncio.Transport, step: bytes | Wait | Repeat) -> None:
        match step:
            case bytes():
                await self._write(transport, step)
            case Wait(seconds):
                await asyncio.sleep(seconds)
            case Repeat(chunk, times):
                for _ in range(times):
                    await self._write(transport, chunk)
            case _:
                assert_never(step)

    async def _write(self, transport: asyncio.Transport, data: bytes) -> None:
        """Write the data and return when all of it has been sent."""
        transport.write(data)
        await self._writable.wait()
        if transport.is_closing():
            raise ConnectionAbortedError("the client disconnected")

    def _finish(self, transport: asyncio.Transport, end: End) -> None:
        match end:
            case End.KEEP:
                self._arrived = time.monotonic()
                self._read()
            case End.CLOSE:
                transport.close()
            case End.RESET:
                _reset(transport)
            case _:
                assert_never(end)

    def _record(self, request: RequestHead, response: ScriptedResponse, *, complete: bool) -> None:
        """Log a request. Called before the last byte is sent, so a client that has its response finds it in the log."""
        self._state.log.add(
            LoggedRequest(
                started=self._arrived,
                ended=time.monotonic(),
                host=request.host,
                target=request.target,
                agent=request.agent,
                status=response.status,
                complete=complete,
                scheme=self._scheme,
                retry_after=response.retry_after,
            )
        )


def _drop_body(response: ScriptedResponse) -> ScriptedResponse:
    """Return the response without its body, if its first bytes contain the whole head."""
    for step in response.steps:
        if isinstance(step, bytes):
            return replace(response, steps=(step[: step.find(END_OF_HEAD) + len(END_OF_HEAD)],))
    return response


def _reset(transport: asyncio.Transport) -> None:
    """Close the connection with a TCP reset."""
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
