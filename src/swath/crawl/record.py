"""Record: what a visit hands to the output, and how that becomes WARC records and one line a page."""

import json
from typing import Any, NamedTuple

from swath.crawl import warc
from swath.crawl.answer import Answer


class Original(NamedTuple):
    """The record that has a body which came again: what a revisit refers to."""

    record_id: str
    url: str
    time: float


class Capture(NamedTuple):
    """One exchange to be archived, and what is said of it in the list of pages."""

    answer: Answer
    record_id: str
    digest: str
    page: dict[str, Any]
    original: Original | None = None
    archived: bool = True  # False: only listed

    @property
    def size(self) -> int:
        return len(self.answer.body) + len(self.answer.head) + 2_000


def records(capture: Capture) -> list[bytes]:
    """The answer's record and the request's, in this order: the first is what the list of pages points to."""
    answer = capture.answer
    if capture.original is not None:
        first = warc.revisit(
            answer.url,
            record_id=capture.record_id,
            time=answer.started,
            head=answer.head,
            digest=capture.digest,
            refers_to=capture.original.record_id,
            refers_to_url=capture.original.url,
            refers_to_time=capture.original.time,
            address=answer.address,
            protocol=answer.protocol,
        )
    else:
        first = warc.response(
            answer.url,
            record_id=capture.record_id,
            time=answer.started,
            head=answer.head,
            body=answer.body,
            digest=capture.digest,
            address=answer.address,
            protocol=answer.protocol,
            truncated=answer.truncated,
        )
    second = warc.request(
        answer.url,
        record_id=warc.new_id(),
        time=answer.started,
        sent=answer.request,
        concurrent_to=capture.record_id,
        address=answer.address,
        protocol=answer.protocol,
    )
    return [first, second]


def line(page: dict[str, Any]) -> bytes:
    return json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
