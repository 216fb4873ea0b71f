"""Build WARC 1.1 records, each a gzip member, with pure functions from values to bytes.

Records store the bytes as received, with two exceptions that readers expect:

- A body is stored without its transfer coding, which belongs to the connection and not to the page. The header becomes
  `X-Archive-Orig-Transfer-Encoding`, so that readers do not try to decode it. Content codings stay.
- HTTP/2 has no text form: the status line says `HTTP/1.1`, and `WARC-Protocol: h2` records the real protocol.

`WARC-Payload-Digest` is the digest of the stored body. ISA-L compresses the records at level 1; its output depends
only on its input.
"""

import re
from base64 import b32encode
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha1
from random import getrandbits

from isal import igzip_lib, isal_zlib

from swath import UsageError

LEVEL = 1
GZIP = 31
STREAMED = 1024 * 1024
REVISIT_PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
CONFORMS_TO = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
ORIGINAL = b"X-Archive-Orig-"
WITHOUT_TEXT = re.compile(rb"\AHTTP/[23][^ \r\n]*")  # a host may write this in an HTTP/1.1 status line too
TRANSFER_ENCODING = re.compile(rb"^transfer-encoding(?=[ \t]*:)", re.IGNORECASE | re.MULTILINE)
END_OF_RECORD = b"\r\n\r\n"
_CRLF = "\r\n"


def new_record_id() -> str:
    """Return a random UUID as a record id. It is not a secret, so it does not use the system's random source, which
    would cost more time than the rest of a small record."""
    bits = getrandbits(128)
    digits = f"{bits:032x}"
    variant = "89ab"[bits & 3]
    return f"<urn:uuid:{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}>"


def compute_payload_digest(body: bytes) -> str:
    """Return the digest of a body in the form of WARC: `sha1:` and 32 base32 characters."""
    return "sha1:" + b32encode(sha1(body, usedforsecurity=False).digest()).decode()


def format_timestamp17(time: float) -> str:
    """Format seconds since the epoch as 17 digits, from year to millisecond, in UTC."""
    moment = datetime.fromtimestamp(time, UTC)
    return f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03d}"


def format_warc_date(time: float) -> str:
    """Format seconds since the epoch as a WARC-Date with microseconds."""
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def build_warcinfo(name: str, *, record_id: str, time: float, fields: Mapping[str, str]) -> bytes:
    """Build the first record of the file `name`: the software, operator and settings."""
    described = {"format": "WARC File Format 1.1", "conformsTo": CONFORMS_TO} | dict(fields)
    block = "".join(f"{_check_line(key)}: {_check_line(value)}\r\n" for key, value in described.items()).encode()
    head = (
        f"WARC/1.1\r\nWARC-Type: warcinfo\r\nWARC-Record-ID: {record_id}\r\nWARC-Date: {format_warc_date(time)}\r\n"
        f"WARC-Filename: {name}\r\nContent-Type: application/warc-fields\r\n"
        f"WARC-Block-Digest: {compute_payload_digest(block)}\r\nContent-Length: {len(block)}\r\n\r\n"
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
    """Build a response record. `digest` is the payload digest of `body`, `truncated` the reason if it is incomplete."""
    stored = rewrite_head(head)
    block_digest = sha1(stored, usedforsecurity=False)
    block_digest.update(body)
    fields = (
        f"{_format_common_fields('response', url, record_id, time, address, protocol)}"
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
    """Build a revisit record: the headers of a response, and a reference to the record with the same body."""
    stored = rewrite_head(head)
    fields = (
        f"{_format_common_fields('revisit', url, record_id, time, address, protocol)}"
        f"Content-Type: application/http;msgtype=response\r\nWARC-Profile: {REVISIT_PROFILE}\r\n"
        f"WARC-Refers-To: {refers_to}\r\nWARC-Refers-To-Target-URI: {_check_line(refers_to_url)}\r\n"
        f"WARC-Refers-To-Date: {format_warc_date(refers_to_time)}\r\n"
        f"WARC-Payload-Digest: {digest}\r\nWARC-Block-Digest: {compute_payload_digest(stored)}\r\n"
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
    """Build a request record. `concurrent_to` is the id of the response record."""
    fields = (
        f"{_format_common_fields('request', url, record_id, time, address, protocol)}"
        f"Content-Type: application/http;msgtype=request\r\nWARC-Concurrent-To: {concurrent_to}\r\n"
        f"WARC-Block-Digest: {compute_payload_digest(sent)}\r\nContent-Length: {len(sent)}\r\n\r\n"
    )
    return _compress_record(fields.encode(), sent, b"")


def rewrite_head(head: bytes) -> bytes:
    """Return the status line and headers in the form that records store."""
    head = WITHOUT_TEXT.sub(b"HTTP/1.1", head, count=1)
    if b"transfer-encoding" in head.lower():
        return TRANSFER_ENCODING.sub(lambda found: ORIGINAL + found[0], head)
    return head


def _format_common_fields(
    kind: str, url: str, record_id: str, time: float, address: str | None, protocol: str | None
) -> str:
    return (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {record_id}\r\nWARC-Date: {format_warc_date(time)}\r\n"
        f"WARC-Target-URI: {_check_line(url)}\r\n"
        f"{'' if address is None else f'WARC-IP-Address: {address}{_CRLF}'}"
        f"{'' if protocol is None else f'WARC-Protocol: {protocol}{_CRLF}'}"
    )


def _check_line(value: str) -> str:
    """Return the value if it is a single line. A line break would start another header."""
    if "\n" in value or "\r" in value:
        raise UsageError(f"{value[:200]!r} contains a line break, which a WARC header cannot; normalise URLs first")
    return value


def _compress_record(fields: bytes, head: bytes, body: bytes) -> bytes:
    """Compress a record to one gzip member. A large body is streamed without a copy; copying a small one is cheaper."""
    if len(body) < STREAMED:
        return igzip_lib.compress(b"".join((fields, head, body, END_OF_RECORD)), LEVEL, igzip_lib.COMP_GZIP)
    packer = isal_zlib.compressobj(LEVEL, wbits=GZIP)
    return b"".join(
        (packer.compress(fields + head), packer.compress(body), packer.compress(END_OF_RECORD), packer.flush())
    )
