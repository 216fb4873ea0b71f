"""One libcurl transfer: a reusable handle, what its callbacks collect, and how its result becomes a response."""

import errno
import os
import socket
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import pycurl

from swath.crawl.http.address import is_public
from swath.crawl.http.connect_to import UrlParts
from swath.crawl.http.outgoing import OutgoingRequest
from swath.crawl.http.response import FailureKind, Headers, Limits, Response, Truncation, find_final_head, make_failure

BUFFER = 64 * 1024
WITH_BODY: Final = ("POST", "PUT", "PATCH")  # methods whose requests have a Content-Length also without a body

# Codes that pycurl has no names for.
E_HTTP2_STREAM = 92
E_TOO_LARGE = 100

SHORTAGE_ERRNOS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
BY_ERRNO: Final[dict[int, FailureKind]] = {
    errno.ECONNREFUSED: "refused",
    errno.ENETUNREACH: "unreachable",
    errno.EHOSTUNREACH: "unreachable",
    errno.ENETDOWN: "unreachable",
    errno.EHOSTDOWN: "unreachable",
    errno.EACCES: "unreachable",
    errno.EPERM: "unreachable",
    errno.ETIMEDOUT: "timeout-connect",
    errno.ECONNRESET: "reset",
    errno.ECONNABORTED: "reset",
}
BY_CODE: Final[dict[int, FailureKind]] = {
    pycurl.E_URL_MALFORMAT: "url",
    pycurl.E_COULDNT_RESOLVE_HOST: "dns",
    pycurl.E_COULDNT_RESOLVE_PROXY: "proxy",
    pycurl.E_GOT_NOTHING: "reset",
    pycurl.E_RECV_ERROR: "reset",
    pycurl.E_SEND_ERROR: "reset",
    pycurl.E_PARTIAL_FILE: "reset",
    pycurl.E_UNSUPPORTED_PROTOCOL: "protocol",  # HTTP/0.9
    pycurl.E_FTP_WEIRD_SERVER_REPLY: "protocol",  # also used for HTTP
    pycurl.E_BAD_CONTENT_ENCODING: "protocol",
    pycurl.E_HTTP2: "protocol",
    E_HTTP2_STREAM: "protocol",
    pycurl.E_SSL_CONNECT_ERROR: "tls",
    pycurl.E_SSL_CACERT: "tls",
    pycurl.E_PEER_FAILED_VERIFICATION: "tls",
    pycurl.E_SSL_CIPHER: "tls",
    pycurl.E_SSL_CERTPROBLEM: "tls",
    pycurl.E_SSL_ISSUER_ERROR: "tls",
    pycurl.E_SSL_INVALIDCERTSTATUS: "tls",
    pycurl.E_SSL_SHUTDOWN_FAILED: "tls",
    E_TOO_LARGE: "too-large-headers",
}
PROTOCOLS: Final = {b"HTTP/1.1": "http/1.1", b"HTTP/1.0": "http/1.0", b"HTTP/2": "h2", b"HTTP/3": "h3"}


class PinnedAddress(NamedTuple):
    """Where libcurl may connect: the addresses of `host:port`, or another address and port (`connect_to`)."""

    host_port: str = ""
    addresses: str = ""
    connect_to: str = ""


class Transfer:
    """A libcurl handle and the data that its callbacks collect. Options are set once, or when they change."""

    __slots__ = (
        "_limit",
        "_pin",
        "body",
        "curl",
        "done",
        "errno",
        "fresh",
        "is_full",
        "lines",
        "refused_address",
        "requests",
        "sent",
    )

    def __init__(self, curl: pycurl.Curl) -> None:
        self.curl = curl
        self.lines: list[bytes] = []
        self.body = bytearray()  # not a list of chunks: a host can send two bytes at a time
        self.is_full = False
        self.refused_address: str | None = None
        self.requests = 0
        self.errno = 0  # of the socket call that failed
        self.sent: tuple[str, ...] | None = None
        self.done: Callable[[int, str], None] | None = None
        self.fresh = False  # uses a new connection
        self._limit = 0  # bytes of a body
        self._pin: PinnedAddress | None = None

    def set_callbacks(self, *, public_only: bool) -> None:
        """Let libcurl call this object. With `public_only`, each socket is checked when it is opened."""
        self.curl.setopt(pycurl.WRITEFUNCTION, self._on_body)
        self.curl.setopt(pycurl.HEADERFUNCTION, self.lines.append)
        self.curl.setopt(pycurl.PREREQFUNCTION, self._on_request)
        if public_only:
            self.curl.setopt(pycurl.OPENSOCKETFUNCTION, self._on_open)
        else:
            self.curl.unsetopt(pycurl.OPENSOCKETFUNCTION)

    def reset(self) -> None:
        """Set every option to libcurl's default. Connections stay open."""
        self.curl.reset()
        self.sent = None
        self.fresh = False

    def prepare(
        self, target: UrlParts, *, sent: tuple[str, ...], pin: PinnedAddress | None, fresh: bool, limit: int
    ) -> None:
        """Set the options that differ from the previous transfer. `limit` is the size limit of the body."""
        self._limit = limit
        if fresh != self.fresh:
            self.curl.setopt(pycurl.FRESH_CONNECT, int(fresh))
            self.fresh = fresh
        self.curl.setopt(pycurl.URL, target.url)
        if sent is not self.sent:
            self.curl.setopt(pycurl.HTTPHEADER, sent)
            self.sent = sent
        self._bind(self._pin, pin)
        self._pin = pin

    def set_request(self, outgoing: OutgoingRequest) -> None:
        """Set the method and body, after `prepare`. Call `reset` before another request."""
        method, body = outgoing.method, outgoing.body
        if method == "HEAD":
            self.curl.setopt(pycurl.NOBODY, 1)
        elif sends_body(outgoing):
            self.curl.setopt(pycurl.POSTFIELDS, body)
            if not any(header.lower().startswith("content-type:") for header in self.sent or ()):
                self.curl.setopt(pycurl.HTTPHEADER, (*(self.sent or ()), "Content-Type:"))  # without libcurl's own
            if method != "POST":
                self.curl.setopt(pycurl.CUSTOMREQUEST, method)
        elif method != "GET":
            self.curl.setopt(pycurl.CUSTOMREQUEST, method)

    def _bind(self, before: PinnedAddress | None, now: PinnedAddress | None) -> None:
        """Tell libcurl which addresses to use.

        An address stays in libcurl's DNS cache until it is removed. Each transfer removes the entry of the previous
        one, so the cache has at most one entry per handle. All handles share the cache: another handle may have removed
        the entry for the same host, so it is set each time."""
        if before is not None and before.connect_to and (now is None or not now.connect_to):
            self.curl.unsetopt(pycurl.CONNECT_TO)
        if now is not None and now.connect_to:
            self.curl.setopt(pycurl.CONNECT_TO, [now.connect_to])
        entries = []
        if before is not None and before.addresses and (now is None or now.host_port != before.host_port):
            entries.append(f"-{before.host_port}")
        if now is not None and now.addresses:
            entries.append(f"{now.host_port}:{now.addresses}")
        if entries:
            self.curl.setopt(pycurl.RESOLVE, entries)

    def clear(self) -> None:
        """Discard the collected data, before the handle is used again."""
        self.lines.clear()
        self.body = bytearray()
        self.errno = self.requests = 0
        self.is_full = False
        self.refused_address = self.done = None

    def check_descriptors(self) -> None:
        """Check for a shortage of descriptors, which libcurl does not report. pycurl needs two per socket."""
        if self.refused_address is None and not self.errno and not self.curl.getinfo(pycurl.OS_ERRNO):
            try:
                with socket.socket(), socket.socket():
                    pass
            except OSError as error:
                self.errno = error.errno or 0

    def _on_request(self, *addresses: str | int) -> int:
        """Allow one request per transfer. If a host has closed a reused connection, libcurl would resend the request
        immediately; the lane has to wait for its interval first (INV-3)."""
        self.requests += 1
        return int(pycurl.PREREQFUNC_OK if self.requests == 1 else pycurl.PREREQFUNC_ABORT)

    def _on_body(self, data: bytes) -> int | None:
        self.body += data
        if len(self.body) <= self._limit:
            return None
        self.is_full = True
        del self.body[self._limit :]
        return 0  # aborts the transfer

    def _on_open(self, purpose: int, where: tuple[int, int, int, tuple[str, int]]) -> "_OpenSocket | int":
        """Check the address that the socket is for, which is the one that libcurl connects to. A reused connection was
        checked when it was opened."""
        family, kind, protocol, address = where
        if not is_public(address[0]):
            self.refused_address = address[0]
            return int(pycurl.SOCKET_BAD)
        try:
            return _OpenSocket(socket.socket(family, kind, protocol).detach())
        except OSError as error:
            self.errno = error.errno or 0
            return int(pycurl.SOCKET_BAD)


class _OpenSocket:
    """A socket for pycurl, which duplicates the descriptor for libcurl and drops this object."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)


def build_response(
    transfer: Transfer,
    url: str,
    *,
    code: int,
    message: str,
    request: bytes,
    started: float,
    ended: float,
    limits: Limits,
) -> Response:
    """Return the response of a transfer that has ended. `code` is the result code of libcurl."""
    curl = transfer.curl
    address: str | None = curl.getinfo(pycurl.PRIMARY_IP) or None
    lines = find_final_head(transfer.lines, tunnelled=bool(curl.getinfo(pycurl.HTTP_CONNECTCODE)))
    if lines is None:
        kind = classify_failure(transfer, code)
        return make_failure(
            url,
            kind,
            _describe_failure(transfer, kind, code, message, limits),
            started=started,
            ended=ended,
            request=request,
            address=address,
        )
    head = b"".join(lines)
    if len(head) > limits.header_bytes or len(lines) > limits.header_lines:
        detail = f"{len(lines)} lines, {len(head)} bytes of headers"
        return make_failure(
            url, "too-large-headers", detail, started=started, ended=ended, request=request, address=address
        )
    return Response(
        url,
        curl.getinfo(pycurl.RESPONSE_CODE),
        PROTOCOLS.get(lines[0].partition(b" ")[0], "http/1.1"),
        request,
        head,
        Headers(head),
        bytes(transfer.body),
        address,
        started,
        min(started + curl.getinfo(pycurl.STARTTRANSFER_TIME), ended),
        ended,
        classify_truncation(transfer, code),
        None,
        message,
    )


def classify_truncation(transfer: Transfer, code: int) -> Truncation | None:
    """Return why a body is incomplete; None if it is complete."""
    if code == pycurl.E_OK:
        return None
    if transfer.is_full:
        return "length"
    return "time" if code == pycurl.E_OPERATION_TIMEDOUT else "disconnect"


def classify_failure(transfer: Transfer, code: int) -> FailureKind:
    """Return the kind of failure of a transfer without a response."""
    if transfer.refused_address is not None:
        return "private"
    number = transfer.errno or transfer.curl.getinfo(pycurl.OS_ERRNO)
    if transfer.errno or (code == pycurl.E_COULDNT_CONNECT and number in SHORTAGE_ERRNOS):
        return "descriptors"
    if code == pycurl.E_COULDNT_CONNECT:
        return BY_ERRNO.get(number, "unreachable")
    if transfer.requests > 1:
        return "reset" if transfer.fresh else "closed"  # HTTP/2 may refuse a request on a new connection too
    if code == pycurl.E_OK:
        return "reset"  # closed within the headers, which libcurl does not report
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return "timeout" if transfer.requests else "timeout-connect"  # libcurl sets PRETRANSFER_TIME in both cases
    return BY_CODE.get(code, "other")


def _describe_failure(transfer: Transfer, kind: FailureKind, code: int, message: str, limits: Limits) -> str:
    """Return the cause in words that are the same for every request with this cause, if there are such words."""
    if transfer.refused_address is not None:
        return f"{transfer.refused_address} is not a public address"
    if transfer.errno:
        return os.strerror(transfer.errno)
    if transfer.requests > 1:
        return "closed without a response"
    if code == pycurl.E_OPERATION_TIMEDOUT:
        connected = kind == "timeout"
        return f"no response within {limits.total:g} s" if connected else f"no connection within {limits.connect:g} s"
    if code == pycurl.E_COULDNT_CONNECT and (number := transfer.curl.getinfo(pycurl.OS_ERRNO)):
        text = os.strerror(number)
        return text[0].lower() + text[1:]
    return message or "closed within the headers"


def sends_body(outgoing: OutgoingRequest) -> bool:
    """Return whether a request has a body, which may be empty."""
    return bool(outgoing.body) or outgoing.method in WITH_BODY


def format_request(target: UrlParts, headers: Sequence[str], outgoing: OutgoingRequest | None = None) -> bytes:
    """Return the request as libcurl sends it over HTTP/1.1, which a test verifies. HTTP/2 has no text form."""
    fields = "".join(f"{header}\r\n" for header in headers)
    method, body = "GET", b""
    if outgoing is not None:
        method, body = outgoing.method, outgoing.body
        if sends_body(outgoing):
            fields += f"Content-Length: {len(body)}\r\n"
    return f"{method} {target.path} HTTP/1.1\r\nHost: {target.authority}\r\n{fields}\r\n".encode() + body
