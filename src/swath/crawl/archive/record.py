"""Record: what a visit hands to the output, and how that becomes WARC records and one line a page."""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from swath.crawl.archive import warc
from swath.crawl.http.response import Answer

PAGE_BYTES: Final = 2_000  # of memory that a page's line takes before it is one


class Original(NamedTuple):
    """The record that has a body which came again: what a revisit refers to. Without an id it is in no archive."""

    record_id: str | None
    url: str
    time: float


class Exchange(NamedTuple):
    """One exchange to be archived. With an original it is a revisit of that."""

    answer: Answer
    record_id: str
    digest: str
    original: Original | None = None


class Capture(NamedTuple):
    """What is said of an exchange in the list of pages, and the exchange, where it is archived as well: its records, or
    what they are yet to be made of."""

    page: dict[str, Any]
    archived: Sequence[bytes] | Exchange | None

    @property
    def size(self) -> int:
        archived = self.archived
        if archived is None:
            return PAGE_BYTES
        if isinstance(archived, Exchange):
            return PAGE_BYTES + len(archived.answer.body) + len(archived.answer.head)
        return PAGE_BYTES + sum(map(len, archived))


def records(exchange: Exchange) -> tuple[bytes, bytes]:
    """The answer's record and the request's, in this order: the first is what the list of pages points to."""
    answer, record_id, digest, original = exchange
    if original is not None and original.record_id is not None:
        first = warc.revisit(
            answer.url,
            record_id=record_id,
            time=answer.started,
            head=answer.head,
            digest=digest,
            refers_to=original.record_id,
            refers_to_url=original.url,
            refers_to_time=original.time,
            address=answer.address,
            protocol=answer.protocol,
        )
    else:
        first = warc.response(
            answer.url,
            record_id=record_id,
            time=answer.started,
            head=answer.head,
            body=answer.body,
            digest=digest,
            address=answer.address,
            protocol=answer.protocol,
            truncated=answer.truncated,
        )
    second = warc.request(
        answer.url,
        record_id=warc.new_id(),
        time=answer.started,
        sent=answer.request,
        concurrent_to=record_id,
        address=answer.address,
        protocol=answer.protocol,
    )
    return first, second


def line(page: dict[str, Any]) -> bytes:
    return json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
