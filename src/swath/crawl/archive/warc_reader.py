"""Read one record of a WARC file, as `warc.py` or another program writes it."""

import re
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, cast

from isal import isal_zlib

from swath import UsageError
from swath.crawl.archive.cdxj import IndexEntry
from swath.crawl.archive.warc import GZIP
from swath.crawl.http.response import Headers
from swath.files.errors import OutputDamaged

MAX_RECORD: Final = 200_000_000  # bytes without compression; what is longer is truncated
_BAD_GZIP = cast("type[Exception]", isal_zlib.error)  # its stub has an instance
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_CHUNK = re.compile(rb"[ \t]*([0-9a-fA-F]{1,15})[ \t]*(?:;[^\n]{0,1000})?\r?\n")  # the line before its data
_ANY_COMPRESSION = 47  # gzip or zlib, with the window of the data
_FRACTION = re.compile(r"(?<=\.)(\d{6})\d+")  # of a second, longer than datetime has it


class ArchivedResponse(NamedTuple):
    """A response or revisit record. The body of a revisit is empty; it is that of the record that it refers to."""

    fields: Mapping[str, str]  # of the WARC header; the names are in lowercase
    head: bytes  # status line and headers, without the blank line
    headers: Headers
    body: bytes  # with content codings

    @property
    def is_revisit(self) -> bool:
        return self.fields.get("warc-type") == "revisit"

    @property
    def url(self) -> str:
        return self.fields.get("warc-target-uri", "").removeprefix("<").removesuffix(">")

    @property
    def status(self) -> int | None:
        """The status code; None if the record has none."""
        words = self.head.split(None, 2)
        return int(words[1]) if len(words) > 1 and words[1].isdigit() and len(words[1]) == 3 else None

    @property
    def time(self) -> float | None:
        """When the request was sent, in seconds since the epoch; None if the record does not say it."""
        try:
            moment = datetime.fromisoformat(_FRACTION.sub(r"\1", self.fields.get("warc-date", "")))
        except ValueError:
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


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
    found = _split_record(record)
    if found.url != entry.url:
        raise OutputDamaged(
            f"{path} has another record than that of {entry.url} at byte {entry.offset:,}: the file or the index was "
            "changed"
        )
    return found


def parse_response(record: bytes) -> ArchivedResponse:
    """Parse a response or revisit record of any program, compressed or not. Raise UsageError if it is another one.

    The body is without its transfer coding, which `warc.py` does not store, but other programs do.
    """
    if record[:2] == b"\x1f\x8b":
        try:
            record = zlib.decompressobj(wbits=_ANY_COMPRESSION).decompress(record, MAX_RECORD)
        except zlib.error as error:
            raise UsageError(f"the WARC record cannot be decompressed: {error}") from None
    found = _split_record(record)
    kind = found.fields.get("warc-type")
    if kind not in ("response", "revisit") or found.status is None:
        what = f"a WARC record of type {kind!r:.80}" if kind else "no WARC record"
        raise UsageError(f"{what} has no HTTP response: pass a record of type response, with its WARC header")
    if "chunked" in (found.headers.get_list("transfer-encoding") or "").lower():
        return found._replace(body=_remove_chunks(found.body))
    return found


def _split_record(record: bytes) -> ArchivedResponse:
    header, _, rest = record.partition(b"\r\n\r\n")
    fields = _parse_fields(header)
    length = fields.get("content-length", "")
    block = rest[: int(length)] if length.isdigit() and len(length) < 20 else rest
    end = _BLANK_LINE.search(block)
    head, body = (block, b"") if end is None else (block[: end.start()], block[end.end() :])
    return ArchivedResponse(fields, head, Headers(head), body)


def _remove_chunks(body: bytes) -> bytes:
    """Return the data of a chunked body up to the first mistake; the body itself if it does not begin with a chunk."""
    chunks: list[bytes] = []
    place = 0
    while place < len(body):
        line = _CHUNK.match(body, place)
        if line is None:
            return b"".join(chunks) if chunks else body
        start, size = line.end(), int(line[1], 16)
        if size == 0:
            break
        chunks.append(body[start : start + size])
        place = start + size
        place += 2 if body[place : place + 2] == b"\r\n" else 1
    return b"".join(chunks)


def _parse_fields(header: bytes) -> dict[str, str]:
    lines = header.decode(errors="replace").split("\r\n")[1:]
    return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
