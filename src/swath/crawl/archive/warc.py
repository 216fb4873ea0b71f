"""WARC 1.1 records, each a gzip member of its own, as pure functions from values to bytes.

What is stored is what came, with two exceptions that every reader wants:

- A body is stored without its transfer coding, since that belongs to the connection and not to the page; the header
  that named it is kept as `X-Archive-Orig-Transfer-Encoding`, so that no reader takes off what is not there. Content
  codings stay on.
- HTTP/2 has no text form: its status line reads `HTTP/1.1`, and `WARC-Protocol: h2` says what was spoken.

`WARC-Payload-Digest` is of the body as stored. Records are packed by ISA-L at level 1, whose output depends on nothing
but its input.
"""

import re
from base64 import b32encode
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha1
from random import getrandbits

from isal import igzip_lib, isal_zlib

from swath.core.errors import UsageError

LEVEL = 1
GZIP = 31
STREAMED = 1024 * 1024
REVISIT_PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
CONFORMS_TO = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
ORIGINAL = b"X-Archive-Orig-"
WITHOUT_TEXT = re.compile(rb"\AHTTP/[23][^ \r\n]*")  # a host may say so and no more in HTTP/1.1, too
TRANSFER_ENCODING = re.compile(rb"^transfer-encoding(?=[ \t]*:)", re.IGNORECASE | re.MULTILINE)
END_OF_RECORD = b"\r\n\r\n"
_CRLF = "\r\n"


def new_record_id() -> str:
    """A record id that nothing else has: a random UUID. It keeps no secret, so it need not come from the system, which
    would cost more than the rest of a small record."""
    bits = getrandbits(128)
    digits = f"{bits:032x}"
    variant = "89ab"[bits & 3]
    return f"<urn:uuid:{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}>"


def payload_digest(body: bytes) -> str:
    """The digest of a body as the records state it: `sha1:` and 32 letters."""
    return "sha1:" + b32encode(sha1(body, usedforsecurity=False).digest()).decode()


def timestamp17(time: float) -> str:
    """Seconds since the epoch as year to milliseconds, in UTC."""
    moment = datetime.fromtimestamp(time, UTC)
    return f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03d}"


def warc_date(time: float) -> str:
    """Seconds since the epoch as a WARC-Date, to the microsecond."""
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def build_warcinfo(name: str, *, record_id: str, time: float, fields: Mapping[str, str]) -> bytes:
    """The first record of the file `name`: who wrote it, with what, under which settings."""
    described = {"format": "WARC File Format 1.1", "conformsTo": CONFORMS_TO} | dict(fields)
    block = "".join(f"{_check_line(key)}: {_check_line(value)}\r\n" for key, value in described.items()).encode()
    head = (
        f"WARC/1.1\r\nWARC-Type: warcinfo\r\nWARC-Record-ID: {record_id}\r\nWARC-Date: {warc_date(time)}\r\n"
        f"WARC-Filename: {name}\r\nContent-Type: application/warc-fields\r\n"
        f"WARC-Block-Digest: {payload_digest(block)}\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return _compress_record(head.encode(), block, b"")


def build_response(
    url: str,
    *,
    record_id: str,
    time: float,
    head: bytes,
    body: bytes,
    digest: str,
    address: str | None = None,
    protocol: str | None = None,
    truncated: str | None = None,
) -> bytes:
    """What a server answered. `digest` is the payload_digest of `body`, `truncated` why it is not all of it."""
    stored = rewrite_head(head)
    block_digest = sha1(stored, usedforsecurity=False)
    block_digest.update(body)
    fields = (
        f"{_common_fields('response', url, record_id, time, address, protocol)}"
        f"Content-Type: application/http;msgtype=response\r\nWARC-Payload-Digest: {digest}\r\n"
        f"WARC-Block-Digest: sha1:{b32encode(block_digest.digest()).decode()}\r\n"
        f"{'' if truncated is None else f'WARC-Truncated: {truncated}{_CRLF}'}"
        f"Content-Length: {len(stored) + len(body)}\r\n\r\n"
    )
    return _compress_record(fields.encode(), stored, body)


def build_revisit(
    url: str,
    *,
    record_id: str,
    time: float,
    head: bytes,
    digest: str,
    refers_to: str,
    refers_to_url: str,
    refers_to_time: float,
    address: str | None = None,
    protocol: str | None = None,
) -> bytes:
    """An answer whose body is that of an earlier record: its headers, and where the body is."""
    stored = rewrite_head(head)
    fields = (
        f"{_common_fields('revisit', url, record_id, time, address, protocol)}"
        f"Content-Type: application/http;msgtype=response\r\nWARC-Profile: {REVISIT_PROFILE}\r\n"
        f"WARC-Refers-To: {refers_to}\r\nWARC-Refers-To-Target-URI: {_check_line(refers_to_url)}\r\n"
        f"WARC-Refers-To-Date: {warc_date(refers_to_time)}\r\n"
        f"WARC-Payload-Digest: {digest}\r\nWARC-Block-Digest: {payload_digest(stored)}\r\n"
        f"Content-Length: {len(stored)}\r\n\r\n"
    )
    return _compress_record(fields.encode(), stored, b"")


def build_request(
    url: str,
    *,
    record_id: str,
    time: float,
    sent: bytes,
    concurrent_to: str,
    address: str | None = None,
    protocol: str | None = None,
) -> bytes:
    """What the server was asked. `concurrent_to` is the record of its answer."""
    fields = (
        f"{_common_fields('request', url, record_id, time, address, protocol)}"
        f"Content-Type: application/http;msgtype=request\r\nWARC-Concurrent-To: {concurrent_to}\r\n"
        f"WARC-Block-Digest: {payload_digest(sent)}\r\nContent-Length: {len(sent)}\r\n\r\n"
    )
    return _compress_record(fields.encode(), sent, b"")


def rewrite_head(head: bytes) -> bytes:
    """Status line and headers as they go into a record."""
    head = WITHOUT_TEXT.sub(b"HTTP/1.1", head, count=1)
    if b"transfer-encoding" in head.lower():
        return TRANSFER_ENCODING.sub(lambda found: ORIGINAL + found[0], head)
    return head


def _common_fields(kind: str, url: str, record_id: str, time: float, address: str | None, protocol: str | None) -> str:
    return (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {record_id}\r\nWARC-Date: {warc_date(time)}\r\n"
        f"WARC-Target-URI: {_check_line(url)}\r\n"
        f"{'' if address is None else f'WARC-IP-Address: {address}{_CRLF}'}"
        f"{'' if protocol is None else f'WARC-Protocol: {protocol}{_CRLF}'}"
    )


def _check_line(value: str) -> str:
    """A header's value, which must be one line: a line break would start a header of its own."""
    if "\n" in value or "\r" in value:
        raise UsageError(f"{value[:200]!r} has a line break, which no WARC header can hold; normalise URLs first")
    return value


def _compress_record(fields: bytes, head: bytes, body: bytes) -> bytes:
    """One gzip member. A large body is packed from where it lies; a small one costs less to copy than to stream."""
    if len(body) < STREAMED:
        return igzip_lib.compress(b"".join((fields, head, body, END_OF_RECORD)), LEVEL, igzip_lib.COMP_GZIP)
    packer = isal_zlib.compressobj(LEVEL, wbits=GZIP)
    return b"".join(
        (packer.compress(fields + head), packer.compress(body), packer.compress(END_OF_RECORD), packer.flush())
    )
