"""CaptureBuilder: turn one HTTP exchange into what the archive stores, and find the original of a duplicate."""

from collections.abc import Sequence
from typing import Any

from swath.crawl.archive import warc
from swath.crawl.archive.record import Capture, Exchange, ItemLine, OriginalRecord, build_records
from swath.crawl.fact_batcher import FactBatcher
from swath.crawl.http.response import Response

FACT_PREFIX = "sha1 "  # key of the fact about the first record with some body: this prefix and the body's digest
COMPRESSED_LATER = 200_000  # bytes; the output thread compresses larger bodies, the event loop smaller ones


class CaptureBuilder:
    """Builds the captures of a crawl. `archiving` says whether WARC records are written, or only the page list."""

    def __init__(self, facts: FactBatcher, *, archiving: bool) -> None:
        self._facts = facts
        self._archiving = archiving

    async def find_original(self, response: Response, digest: str) -> OriginalRecord | None:
        """Return the settled record of another URL that has the same body.

        In a crawl that began with --no-warc the original may have no record. It still counts as the original while
        nothing is archived.
        """
        if not _is_comparable(response):
            return None
        fact = await self._facts.get(FACT_PREFIX + digest)
        if fact is None or fact[1] == response.url or (fact[0] is None and self._archiving):
            return None
        return OriginalRecord(*fact)

    def build_original_fact(self, response: Response, digest: str, record_id: str) -> dict[str, Any]:
        """Return the fact that makes this exchange the original of later ones with the same body."""
        if not _is_comparable(response):
            return {}
        return {FACT_PREFIX + digest: [record_id if self._archiving else None, response.url, response.started]}

    def build(
        self,
        response: Response,
        page: dict[str, Any],
        *,
        digest: str | None = None,
        record_id: str | None = None,
        original: OriginalRecord | None = None,
        archived: bool = True,
        items: Sequence[ItemLine] = (),
    ) -> Capture:
        """Build the page's entry in the page list, and its WARC records unless `archived` is false.

        Small records are compressed here: waking a thread costs more than compressing them.
        """
        digest = warc.compute_payload_digest(response.body) if digest is None else digest
        fields = {
            "url": response.url,
            "status": response.status,
            "time": response.started,
            "type": response.headers.get("content-type"),
            "size": len(response.body),
            "digest": digest,
            **page,
            "truncated": response.truncated,
        }
        # Omit empty fields. A depth or size of 0 is not empty.
        listed = {
            name: value for name, value in fields.items() if value is not None and value is not False and value != ""
        }
        if not archived or not response.status or not self._archiving:
            return Capture(listed, None, items)
        exchange = Exchange(response, record_id or warc.new_record_id(), digest, original)
        return Capture(listed, exchange if len(response.body) > COMPRESSED_LATER else build_records(exchange), items)


def _is_comparable(response: Response) -> bool:
    """Return whether the body is a complete page, so that another page can be its duplicate."""
    return response.status == 200 and bool(response.body) and response.truncated is None
