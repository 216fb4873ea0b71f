"""One transfer of libcurl: a handle that is used again and again, what it collects, and what its end means."""

import errno
import os
import socket
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import pycurl

from swath.crawl.http.address import is_public
from swath.crawl.http.connect_to import UrlParts
from swath.crawl.http.response import FailureKind, Headers, Limits, Response, Truncation, find_final_head, make_failure

BUFFER = 64 * 1024

# By number, where pycurl has no name for it.
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
    pycurl.E_FTP_WEIRD_SERVER_REPLY: "protocol",  # of HTTP as well
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
    """What libcurl is bound to: the addresses of a place, `host:port`, or an address and port to go to instead."""

    host_port: str = ""
    addresses: str = ""
    connect_to: str = ""


class Transfer:
    """A handle of libcurl with what its callbacks fill. Options are set once, or when they change."""

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

    def __init__(self, curl: pycurl.Curl, *, public_only: bool) -> None:
        self.curl = curl
        self.lines: list[bytes] = []
        self.body = bytearray()  # not a list of what came: a host can send it two bytes at a time
        self.is_full = False
        self.refused_address: str | None = None
        self.requests = 0
        self.errno = 0  # why no socket could be opened
        self.sent: tuple[str, ...] | None = None
        self.done: Callable[[int, str], None] | None = None
        self.fresh = False  # on a connection of its own
        self._limit = 0  # of a body
        self._pin: PinnedAddress | None = None
        curl.setopt(pycurl.WRITEFUNCTION, self._on_body)
        curl.setopt(pycurl.HEADERFUNCTION, self.lines.append)
        curl.setopt(pycurl.PREREQFUNCTION, self._on_request)
        if public_only:
            curl.setopt(pycurl.OPENSOCKETFUNCTION, self._on_open)

    def prepare(
        self, target: UrlParts, *, sent: tuple[str, ...], pin: PinnedAddress | None, fresh: bool, limit: int
    ) -> None:
        """Set what differs from the transfer before. `limit` is for the body."""
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

    def _bind(self, before: PinnedAddress | None, now: PinnedAddress | None) -> None:
        """An address given for a host stays in libcurl's cache until it is taken out, which the next host sees to. So
        the cache holds no more than there are handles. It is one for all of them: what this one put there for the same
        host may have been taken out by another, so that it is given each time."""
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
        """Forget what came, before the handle is used again."""
        self.lines.clear()
        self.body = bytearray()
        self.errno = self.requests = 0
        self.is_full = False
        self.refused_address = self.done = None

    def check_descriptors(self) -> None:
        """Where libcurl could not open a socket it does not say why. Two are tried, since pycurl needs two for one."""
        if self.refused_address is None and not self.errno and not self.curl.getinfo(pycurl.OS_ERRNO):
            try:
                with socket.socket(), socket.socket():
                    pass
            except OSError as error:
                self.errno = error.errno or 0

    def _on_request(self, *addresses: str | int) -> int:
        """A request is about to be sent. Where a host closes a connection that was kept alive, libcurl sends it once
        more and at once; a host that has just closed is to be left alone for its interval (INV-3)."""
        self.requests += 1
        return int(pycurl.PREREQFUNC_OK if self.requests == 1 else pycurl.PREREQFUNC_ABORT)

    def _on_body(self, data: bytes) -> int | None:
        self.body += data
        if len(self.body) <= self._limit:
            return None
        self.is_full = True
        del self.body[self._limit :]
        return 0  # which ends the transfer

    def _on_open(self, purpose: int, where: tuple[int, int, int, tuple[str, int]]) -> "_OpenSocket | int":
        """The last word on what is connected to: this is the address that the socket is for. A socket is opened only
        for a new connection, so that one that is kept alive has been looked at before."""
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
    """A socket on its way to pycurl, which makes a copy of the descriptor for libcurl and drops this."""

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
    """The answer that an ended transfer amounts to. `code` is libcurl's."""
    curl = transfer.curl
    address: str | None = curl.getinfo(pycurl.PRIMARY_IP) or None
    lines = find_final_head(transfer.lines, tunnelled=bool(curl.getinfo(pycurl.HTTP_CONNECTCODE)))
    if lines is None:
        kind = classify_failure(transfer, code)
        return make_failure(
            url,
            kind,
            _describe_failure(transfer, message),
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
        started + curl.getinfo(pycurl.STARTTRANSFER_TIME),
        ended,
        classify_truncation(transfer, code),
        None,
        message,
    )


def classify_truncation(transfer: Transfer, code: int) -> Truncation | None:
    """Why a body is not all of it; None when it is."""
    if code == pycurl.E_OK:
        return None
    if transfer.is_full:
        return "length"
    return "time" if code == pycurl.E_OPERATION_TIMEDOUT else "disconnect"


def classify_failure(transfer: Transfer, code: int) -> FailureKind:
    """The kind of failure of a transfer that brought no answer."""
    if transfer.refused_address is not None:
        return "private"
    number = transfer.errno or transfer.curl.getinfo(pycurl.OS_ERRNO)
    if transfer.errno or (code == pycurl.E_COULDNT_CONNECT and number in SHORTAGE_ERRNOS):
        return "descriptors"
    if code == pycurl.E_COULDNT_CONNECT:
        return BY_ERRNO.get(number, "unreachable")
    if transfer.requests > 1:
        return "reset" if transfer.fresh else "closed"  # over HTTP/2 a new connection may refuse a request as well
    if code == pycurl.E_OK:
        return "reset"  # in mid-header, of which libcurl makes nothing
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return "timeout" if transfer.curl.getinfo(pycurl.PRETRANSFER_TIME) else "timeout-connect"
    return BY_CODE.get(code, "other")


def _describe_failure(transfer: Transfer, message: str) -> str:
    if transfer.refused_address is not None:
        return f"{transfer.refused_address} is not a public address"
    if transfer.errno:
        return os.strerror(transfer.errno)
    if transfer.requests > 1:
        return "closed without an answer"
    return message or "closed within the headers"


def format_request(target: UrlParts, headers: Sequence[str]) -> bytes:
    """The request as libcurl sends it over HTTP/1.1, which a test holds it to; over HTTP/2 it has no text."""
    fields = "".join(f"{header}\r\n" for header in headers)
    return f"GET {target.path} HTTP/1.1\r\nHost: {target.authority}\r\n{fields}\r\n".encode()
