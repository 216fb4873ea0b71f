"""What the page handler passes to the output, and how it becomes WARC records and one line of the page list."""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from swath.crawl.archive import warc
from swath.crawl.http.response import Response

PAGE_LINE_BYTES: Final = 2_000  # estimated memory of a page before it is formatted


class OriginalRecord(NamedTuple):
    """The record that a revisit refers to, with the same body. Without an id it is not in the archive."""

    record_id: str | None
    url: str
    time: float


class ItemLine(NamedTuple):
    """An extracted item as it is written to the output of its kind: a line of JSON."""

    kind: str
    line: bytes


class Exchange(NamedTuple):
    """One exchange to archive. With `original` it becomes a revisit record."""

    response: Response
    record_id: str
    digest: str
    original: OriginalRecord | None = None


class Capture(NamedTuple):
    """A page for the page list, and what else is written with it.

    If the page is archived, `archived` has its WARC records or the exchange to build them from.
    """

    page: dict[str, Any]
    archived: Sequence[bytes] | Exchange | None
    items: Sequence[ItemLine] = ()

    @property
    def size(self) -> int:
        archived, size = self.archived, PAGE_LINE_BYTES
        if self.items:
            size += sum(len(line) for _, line in self.items)
        if archived is None:
            return size
        if isinstance(archived, Exchange):
            return size + len(archived.response.body) + len(archived.response.head)
        return size + sum(map(len, archived))


def build_records(exchange: Exchange) -> tuple[bytes, bytes]:
    """Return the response record and the request record. The page list points to the first."""
    response, record_id, digest, original = exchange
    if original is not None and original.record_id is not None:
        first = warc.build_revisit(
            response.url,
            record_id=record_id,
            time=response.started,
            head=response.head,
            digest=digest,
            refers_to=original.record_id,
            refers_to_url=original.url,
            refers_to_time=original.time,
            address=response.address,
            protocol=response.protocol,
        )
    else:
        first = warc.build_response(
            response.url,
            record_id=record_id,
            time=response.started,
            head=response.head,
            body=response.body,
            digest=digest,
            address=response.address,
            protocol=response.protocol,
            truncated=response.truncated,
        )
    second = warc.build_request(
        response.url,
        record_id=warc.new_record_id(),
        time=response.started,
        sent=response.request,
        concurrent_to=record_id,
        address=response.address,
        protocol=response.protocol,
    )
    return first, second


def format_page_line(page: dict[str, Any]) -> bytes:
    return json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
