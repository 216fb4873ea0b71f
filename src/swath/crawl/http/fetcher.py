"""Fetch pages: thousands of concurrent transfers over libcurl, with limits, to public addresses only.

The fetcher resolves a host once and checks its addresses. libcurl may connect to these addresses only, and every socket
is checked again when it is opened. So DNS rebinding, a name that changes between check and connect, does not help an
attacker. With a proxy, the proxy resolves names and connects; then only IP addresses in URLs are checked.

Certificates are not verified by default, and old TLS versions are accepted. A crawler records public pages and sends no
secrets: an expired certificate should not leave a gap in the archive, which records what was received, not who sent it.

Redirects are not followed and cookies are not stored. netrc, credentials in URLs and proxies in the environment are
ignored.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

import pycurl

from swath import UsageError, lease_clock
from swath.crawl.http.address import is_public, parse_ip_literal
from swath.crawl.http.awake_clock import AwakeClock
from swath.crawl.http.connect_to import ConnectTo, UrlParts, split_url
from swath.crawl.http.curl_loop import CurlLoop
from swath.crawl.http.outgoing import OutgoingRequest, format_header
from swath.crawl.http.resolver import AddressResolver, ResolveError
from swath.crawl.http.response import FailureKind, Limits, Response, make_failure
from swath.crawl.http.transfer import BUFFER, PinnedAddress, Transfer, build_response, format_request

ACCEPT = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ACCEPT_ENCODING = "Accept-Encoding: gzip, deflate, br, zstd"
NO_FIRST_BYTE = -1  # code of a transfer that was aborted because no byte arrived in time
SHORTAGE_SECONDS = 60  # without a shortage of descriptors before the number of idle connections grows again


class Fetcher:
    """Fetches URLs. It belongs to the event loop that was running when it was created."""

    def __init__(
        self,
        *,
        resolver: AddressResolver,
        user_agent: str,
        limits: Limits | None = None,
        allow_private: bool = False,
        proxy: str | None = None,
        connect_to: ConnectTo | None = None,
        http2: bool = True,
        verify: bool = False,
        ca_file: str | None = None,
        connections: int = 1_000,
        keep_alive: float = 30.0,
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = lease_clock,
    ) -> None:
        """Open at most `connections`, and close those that are idle for `keep_alive` seconds (0: do not reuse them).
        `connect_to` does not permit private addresses; `allow_private` does."""
        self._loop = asyncio.get_running_loop()
        self._resolver = resolver
        self._limits = limits or Limits()
        self._allow_private = allow_private
        self._proxy = proxy
        self._connect_to = connect_to or ConnectTo()
        self._http2 = http2
        self._verify = verify
        self._ca_file = ca_file
        self._keep_alive = keep_alive
        self._wall_clock = wall_clock
        self._clock = clock
        self._awake = AwakeClock(self._loop, clock=clock)
        self._standard = (format_header("User-Agent", user_agent), ACCEPT, ACCEPT_ENCODING)
        self._max_idle = self._idle = connections if keep_alive > 0 else 1
        self._shortage_at = 0.0  # time of the last shortage of descriptors
        self._curl_loop = CurlLoop(self._loop, done=self._on_done, connections=connections, idle=self._idle)
        self._slots = asyncio.Semaphore(connections)
        self._free: list[Transfer] = []
        self._busy: dict[pycurl.Curl, Transfer] = {}
        self._awaiting_first_byte: dict[Transfer, float] = {}  # transfer -> deadline, in the order of the deadlines
        self._first_byte_timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def fetch(
        self,
        url: str,
        *,
        fresh: bool = False,
        address: str | None = None,
        size: int = 0,
        outgoing: OutgoingRequest | None = None,
    ) -> Response:
        """Fetch a URL with one request: a plain GET, or `outgoing`. Every failure is a response with an `error`, also a
        reused connection that the host has closed. Pass `fresh=True` for a retry, to use a new connection. If `address`
        is one of the addresses of the host, connect to no other. The body is limited to `size` bytes or the limit of
        the fetcher, whichever is larger."""
        target = split_url(url)
        if target is None:
            return self._make_failure(url, "url", "not an http or https URL that can be fetched")
        sent: tuple[str, ...] = self._standard
        proxy = self._proxy
        if outgoing is not None:
            sent, proxy = _merge_headers(self._standard, outgoing.headers), outgoing.proxy
        async with self._slots:
            pin = await self._pin(url, target, address, proxy=proxy)
            if isinstance(pin, Response):
                return pin
            return await self._transfer(url, target, sent, pin, fresh, max(size, self._limits.size), outgoing)

    async def close(self) -> None:
        """Abort all transfers, which cancels their `fetch` calls, and close all connections."""
        self._closed = True
        for curl, transfer in list(self._busy.items()):
            self._curl_loop.remove(curl)
            self._finish(transfer, NO_FIRST_BYTE, "closed")
        if self._first_byte_timer is not None:
            self._first_byte_timer.cancel()
            self._first_byte_timer = None
        self._curl_loop.close()
        self._awake.close()
        for transfer in self._free:
            transfer.curl.close()
        self._free.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def in_flight(self) -> int:
        """The number of transfers in flight."""
        return len(self._busy)

    async def resolve(self, url: str) -> Response | Sequence[str]:
        """Return the addresses of the host that the fetcher may connect to, or a failure if there are none."""
        target = split_url(url)
        if target is None:
            return self._make_failure(url, "url", "not an http or https URL that can be fetched")
        host, _ = self._connect_to.find(target.host, target.port) or (target.host, target.port)
        return await self._resolve_allowed_addresses(url, host)

    async def _resolve_allowed_addresses(self, url: str, host: str) -> Response | Sequence[str]:
        address = parse_ip_literal(host)
        if address is not None:
            addresses: Sequence[str] = (address,)
        else:
            try:
                addresses = await self._resolver.resolve(host)
            except ResolveError as error:
                return self._make_failure(url, "dns-negative" if error.is_permanent else "dns", f"{error}")
        allowed = addresses if self._allow_private else [one for one in addresses if is_public(one)]
        if not allowed:
            why = "is not a public address" if address else f"has no public address, but {', '.join(addresses)}"
            return self._make_failure(url, "private", f"{host} {why}")
        return allowed

    async def _pin(
        self, url: str, target: UrlParts, wanted: str | None = None, *, proxy: str | None = None
    ) -> Response | PinnedAddress | None:
        """Return the addresses that libcurl may connect to; None if the URL contains the address itself."""
        mapped = self._connect_to.find(target.host, target.port)
        host, port = mapped or (target.host, target.port)
        address = parse_ip_literal(host)
        if proxy is not None:
            if address is None or self._is_allowed(address):
                return PinnedAddress(connect_to=f"::{host}:{port}") if mapped else None
            return self._make_failure(url, "private", f"{address} is not a public address")
        allowed = await self._resolve_allowed_addresses(url, host)
        if isinstance(allowed, Response):
            return allowed
        if wanted is not None and wanted in allowed:
            allowed = (wanted,)
        if mapped is not None:
            return PinnedAddress(connect_to=f"::{_add_brackets(allowed[0])}:{port}")
        if address is not None:
            return None
        return PinnedAddress(f"{host}:{port}", ",".join(map(_add_brackets, allowed)))

    async def _transfer(
        self,
        url: str,
        target: UrlParts,
        sent: tuple[str, ...],
        pin: PinnedAddress | None,
        fresh: bool,
        size: int,
        outgoing: OutgoingRequest | None,
    ) -> Response:
        if self._closed:
            raise UsageError("fetch() was called after the fetcher was closed")
        transfer = self._free.pop() if self._free else self._make_transfer()
        curl = transfer.curl
        ended: asyncio.Future[tuple[int, str]] = self._loop.create_future()
        transfer.done = lambda code, message: None if ended.done() else ended.set_result((code, message))
        transfer.prepare(target, sent=sent, pin=pin, fresh=fresh, limit=size)
        if outgoing is not None:
            self._set_request(transfer, outgoing)
        started, began = self._wall_clock(), self._awake.start()
        self._curl_loop.add(curl)
        self._busy[curl] = transfer
        self._await_first_byte(transfer)
        try:
            code, message = await ended
            if self._is_closed():
                raise asyncio.CancelledError
            request = format_request(target, sent, outgoing)
            return self._build_response(transfer, url, request, code, message, started, began)
        finally:
            if self._busy.pop(curl, None) is not None:  # cancelled
                self._curl_loop.remove(curl)
            self._awaiting_first_byte.pop(transfer, None)
            self._awake.stop()
            transfer.clear()
            if self._is_closed():
                curl.close()
            else:
                if outgoing is not None:
                    self._reset(transfer)
                self._free.append(transfer)

    def _build_response(
        self,
        transfer: Transfer,
        url: str,
        request: bytes,
        code: int,
        message: str,
        started: float,
        began: float,
    ) -> Response:
        ended = started + min(self._awake.read() - began, self._limits.total)
        if code == NO_FIRST_BYTE:
            return make_failure(url, "timeout-first-byte", message, started=started, ended=ended, request=request)
        response = build_response(
            transfer,
            url,
            code=code,
            message=message,
            request=request,
            started=started,
            ended=ended,
            limits=self._limits,
        )
        if response.error == "descriptors":
            self._shortage_at = self._clock()
            self._set_max_idle(self._idle // 2)
        elif self._idle < self._max_idle and self._clock() - self._shortage_at > SHORTAGE_SECONDS:
            self._shortage_at = self._clock()
            self._set_max_idle(self._idle * 2)
        return response

    def _set_max_idle(self, connections: int) -> None:
        self._idle = min(max(1, connections), self._max_idle)
        self._curl_loop.set_max_idle(self._idle)

    def _on_done(self, curl: pycurl.Curl, code: int, message: str) -> None:
        transfer = self._busy[curl]
        if code == pycurl.E_COULDNT_CONNECT:
            transfer.check_descriptors()  # immediately: descriptors may be free again a moment later
        self._finish(transfer, code, message)

    def _finish(self, transfer: Transfer, code: int, message: str) -> None:
        del self._busy[transfer.curl]
        self._awaiting_first_byte.pop(transfer, None)
        if transfer.done is not None:
            transfer.done(code, message)

    def _await_first_byte(self, transfer: Transfer) -> None:
        """Set the deadline for the first byte: libcurl has no such timeout. Every transfer has the same timeout, so the
        dictionary is in the order of the deadlines."""
        due = self._loop.time() + self._limits.first_byte
        self._awaiting_first_byte[transfer] = due
        if self._first_byte_timer is None:
            self._first_byte_timer = self._loop.call_at(due, self._check_first_bytes)

    def _check_first_bytes(self) -> None:
        self._first_byte_timer = None
        now = self._loop.time()
        for transfer, due in list(self._awaiting_first_byte.items()):
            if due > now:
                self._first_byte_timer = self._loop.call_at(due, self._check_first_bytes)
                return
            del self._awaiting_first_byte[transfer]
            if not transfer.lines:
                self._curl_loop.remove(transfer.curl)
                self._finish(transfer, NO_FIRST_BYTE, f"no byte received within {self._limits.first_byte:g} s")

    def _make_transfer(self) -> Transfer:
        transfer = Transfer(pycurl.Curl())
        self._set_options(transfer)
        return transfer

    def _reset(self, transfer: Transfer) -> None:
        """Set all options again, so that nothing of a special request is sent with the next one."""
        transfer.reset()
        self._set_options(transfer)

    def _set_request(self, transfer: Transfer, outgoing: OutgoingRequest) -> None:
        """Set what makes a request special."""
        transfer.set_request(outgoing)
        if outgoing.proxy != self._proxy:
            transfer.curl.setopt(pycurl.PROXY, outgoing.proxy or "")
            transfer.set_callbacks(public_only=self._is_public_only(outgoing.proxy))

    def _is_public_only(self, proxy: str | None) -> bool:
        """Return whether to check the address of each socket: with a proxy, it is that of the proxy."""
        return not self._allow_private and proxy is None

    def _set_options(self, transfer: Transfer) -> None:
        curl, limits = transfer.curl, self._limits
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS if self._http2 else pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.HTTP_CONTENT_DECODING, 0)
        curl.setopt(pycurl.PATH_AS_IS, 1)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.BUFFERSIZE, BUFFER)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, round(limits.connect * 1000))
        curl.setopt(pycurl.TIMEOUT_MS, round(limits.total * 1000))
        curl.setopt(pycurl.DNS_CACHE_TIMEOUT, -1)  # with another value libcurl scans its whole cache for every transfer
        curl.setopt(pycurl.PROXY, self._proxy or "")  # empty: no proxy, and ignore the environment
        self._set_tls(curl)
        if self._keep_alive > 0:
            curl.setopt(pycurl.MAXAGE_CONN, max(1, round(self._keep_alive)))
        else:
            curl.setopt(pycurl.FORBID_REUSE, 1)
        transfer.set_callbacks(public_only=self._is_public_only(self._proxy))

    def _set_tls(self, curl: pycurl.Curl) -> None:
        curl.setopt(pycurl.SSL_VERIFYPEER, int(self._verify))
        curl.setopt(pycurl.SSL_VERIFYHOST, 2 if self._verify else 0)
        if not self._verify:  # without verification, accept old protocols as well
            curl.setopt(pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_0)
            curl.setopt(pycurl.SSL_CIPHER_LIST, "DEFAULT@SECLEVEL=0")
            return
        # Use the paths that Python knows; a libcurl from a wheel has the paths of the machine that built it.
        paths = ssl.get_default_verify_paths()
        if self._ca_file or paths.cafile:
            curl.setopt(pycurl.CAINFO, self._ca_file or paths.cafile)
        elif paths.capath:
            curl.unsetopt(pycurl.CAINFO)
            curl.setopt(pycurl.CAPATH, paths.capath)

    def _is_closed(self) -> bool:
        """Return whether `close` was called, which may happen during any await."""
        return self._closed

    def _is_allowed(self, address: str) -> bool:
        return self._allow_private or is_public(address)

    def _make_failure(self, url: str, kind: FailureKind, detail: str) -> Response:
        now = self._wall_clock()
        return make_failure(url, kind, detail, started=now, ended=now)


def _merge_headers(standard: tuple[str, ...], headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the standard headers, replaced and extended by the given ones."""
    if not headers:
        return standard
    given = {name.lower() for name in headers}
    kept = [header for header in standard if header.partition(":")[0].lower() not in given]
    return (*kept, *(format_header(name, value) for name, value in headers.items()))


def _add_brackets(address: str) -> str:
    return f"[{address}]" if ":" in address else address
