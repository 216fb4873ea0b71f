"""Read one record of a WARC file, as `warc.py` writes it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, cast

from isal import isal_zlib

from swath import UsageError
from swath.crawl.archive.cdxj import IndexEntry
from swath.crawl.archive.warc import GZIP
from swath.crawl.http.response import Headers
from swath.files.errors import OutputDamaged

_BAD_GZIP = cast("type[Exception]", isal_zlib.error)  # its stub has an instance
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")


class ArchivedResponse(NamedTuple):
    """A response or revisit record. The body of a revisit is empty; it is that of the record that it refers to."""

    fields: Mapping[str, str]  # of the WARC header; the names are in lowercase
    head: bytes  # status line and headers, without the blank line
    headers: Headers
    body: bytes  # with content codings

    @property
    def is_revisit(self) -> bool:
        return self.fields.get("warc-type") == "revisit"


def read_response(directory: Path, entry: IndexEntry) -> ArchivedResponse:
    """Read the record of a capture. Raise OutputDamaged if another record is in its place."""
    path = directory / entry.file
    try:
        with path.open("rb") as file:
            file.seek(entry.offset)
            record: bytes = isal_zlib.decompress(file.read(entry.length), wbits=GZIP)
    except FileNotFoundError:
        raise UsageError(f"{path}, which has the record, is not there: restore it from a copy") from None
    except _BAD_GZIP as error:
        raise OutputDamaged(f"{path} is damaged at byte {entry.offset:,} ({error}): restore it from a copy") from error
    header, _, rest = record.partition(b"\r\n\r\n")
    fields = _parse_fields(header)
    if fields.get("warc-target-uri") != entry.url:
        raise OutputDamaged(
            f"{path} has another record than that of {entry.url} at byte {entry.offset:,}: the file or the index was "
            "changed"
        )
    block = rest[: int(fields["content-length"])]
    end = _BLANK_LINE.search(block)
    head, body = (block, b"") if end is None else (block[: end.start()], block[end.end() :])
    return ArchivedResponse(fields, head, Headers(head), body)


def _parse_fields(header: bytes) -> dict[str, str]:
    lines = header.decode(errors="replace").split("\r\n")[1:]
    return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
