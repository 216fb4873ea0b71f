"""Parse seeds: a URL or host name, and lists of them as people and publishers write them.

A list has one seed per line, with comments, or is a table such as `rank,domain`, whose rows are separated by commas,
tabs or semicolons. It is UTF-8, or UTF-16 with a byte order mark, and may be compressed with gzip.
"""

import codecs
import csv
import io
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from swath import UsageError
from swath.crawl.urls import normalise

MAX_LINE = 65_536  # characters; the rest of a longer line is dropped
MAX_EXPANDED = 1_000_000  # bytes that are decompressed at once
MAX_SHOWN = 100  # characters of a bad line in a message
MAX_REPORTS = 5  # bad lines that are described; further ones are counted

GZIP = b"\x1f\x8b"
OTHER_FORMATS: Final = {
    b"PK\x03\x04": "a ZIP archive",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    codecs.BOM_UTF32_LE: "UTF-32 text",
    codecs.BOM_UTF32_BE: "UTF-32 text",
}
BOMS: Final = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
LONGEST_MARK = 5  # bytes at the beginning of a file that tell its format

TABLE_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
DELIMITERS = "\t,;"
HEADERS = frozenset(("domain", "host", "hostname", "url", "site", "website", "origin", "root_domain"))
# Elsewhere than in a table, a delimiter after the first slash belongs to a URL.
_ROW = re.compile(r'\s*(?:"(?:[^"]|"")*"\s*|(?:https?://)?[^/?#"\t,;]*)([\t,;])', re.IGNORECASE)
_QUOTED = re.compile(r'\s*"(?:[^"]|"")*"\s*')
_COMMENT = re.compile(r"\s#")
_HOST_CELL = re.compile(
    r"(?:https?://[^\s/]|(?:[^\s/:?#@,;]+\.(?:[^\W\d_]{2,}|xn--[a-z0-9-]+)\.?|\d{1,3}(?:\.\d{1,3}){3})(?::\d+)?(?:[/?#]|$))",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[+-]?[\d.]+(?:e[+-]?\d+)?", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")


class Seed(NamedTuple):
    """A URL to start from. `bare` means that it was given without a scheme, so other forms of it may be tried."""

    url: str
    bare: bool = False


class BadSeed(UsageError):
    """A text that is not a seed. The message continues a sentence that begins with the text."""


def parse_seed(text: str) -> Seed:
    """Return the seed that a text names, or raise BadSeed."""
    url = normalise.parse_seed(text)
    if url is not None:
        return Seed(url, not normalise.has_scheme(text) and url.startswith("https:"))
    if (port := normalise.find_blocked_port(text)) is not None:
        raise BadSeed(f"cannot be crawled: port {port} is blocked, as in browsers")
    meant = normalise.suggest_seed(text)
    raise BadSeed(
        "is not a URL or host name that can be crawled" + ("" if meant is None else f": did you mean {meant}?")
    )


class SeedListParser:
    """Parses the bytes of one seed list as they arrive, in bounded memory.

    `check` may raise BadSeed for a seed that is excluded. A bad line is skipped, counted and reported; with `strict`
    it raises UsageError.
    """

    def __init__(self, name: str, *, strict: bool, check: Callable[[Seed], None]) -> None:
        self.name = name
        self.seeds = 0
        self.skipped = 0  # bad lines
        self.reports: list[str] = []  # about the first bad lines
        self._strict = strict
        self._check = check
        self._table = name.lower().endswith(TABLE_SUFFIXES)
        self._delimiter: str | None = None  # of a table, once a line shows it
        self._lines = 0
        self._is_first = True  # whether no line with content was read yet
        self._start = b""  # bytes that do not yet tell the compression or the encoding
        self._is_gzip: bool | None = None
        self._decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        self._decoder: io.IncrementalNewlineDecoder | None = None
        self._rest = ""  # the beginning of a line
        self._too_long = False

    def feed(self, block: bytes, *, end: bool = False) -> Iterator[Seed]:
        """Yield the seeds of the lines that are complete. Pass `end=True` with the last block."""
        for data in self._decompress(block, end=end):
            yield from self._parse_text(data)
        if end:
            yield from self._parse_text(b"", end=True)

    def _decompress(self, block: bytes, *, end: bool) -> Iterator[bytes]:
        if self._is_gzip is None:
            block = self._start + block
            if len(block) < len(GZIP) and not end:
                self._start = block
                return
            self._is_gzip, self._start = block.startswith(GZIP), b""
        if not self._is_gzip:
            yield block
            return
        try:
            while block:
                if self._decompressor.eof:  # the file has another member
                    self._decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
                yield self._decompressor.decompress(block, MAX_EXPANDED)
                block = self._decompressor.unused_data if self._decompressor.eof else self._decompressor.unconsumed_tail
        except zlib.error as error:
            raise UsageError(f"{self.name} is not a valid gzip file: {error}") from error
        if end and not self._decompressor.eof:
            raise UsageError(f"{self.name} is not a complete gzip file")

    def _parse_text(self, data: bytes, *, end: bool = False) -> Iterator[Seed]:
        if self._decoder is None:
            data = self._start + data
            if len(data) < LONGEST_MARK and not end:
                self._start = data
                return
            self._decoder = self._make_decoder(data)
        *lines, self._rest = (self._rest + self._decoder.decode(data, end)).split("\n")
        for line in lines:
            yield from self._parse_line(line)
        if len(self._rest) > MAX_LINE:
            self._rest, self._too_long = self._rest[:MAX_LINE], True
        if end and self._rest:
            yield from self._parse_line(self._rest)
            self._rest = ""

    def _make_decoder(self, start: bytes) -> io.IncrementalNewlineDecoder:
        for mark, what in OTHER_FORMATS.items():
            if start.startswith(mark):
                raise UsageError(f"{self.name} is {what}: convert it to UTF-8 text first")
        encoding = next((name for mark, name in BOMS.items() if start.startswith(mark)), "utf-8")
        # Bytes that are not UTF-8 become surrogates, so that they spoil only their own line.
        errors = "replace" if encoding == "utf-16" else "surrogateescape"
        return io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(encoding)(errors), translate=True)

    def _parse_line(self, line: str) -> Iterator[Seed]:
        self._lines += 1
        try:
            if self._too_long or len(line) > MAX_LINE:
                self._too_long = False
                raise BadSeed(f"is longer than {MAX_LINE:,} characters")
            text = self._find_seed_text(line)
            if text is None:
                return
            seed = parse_seed(text)
            self._check(seed)
        except BadSeed as error:
            self._report(line, error)
            return
        self.seeds += 1
        yield seed

    def _report(self, line: str, error: BadSeed) -> None:
        self.skipped += 1
        if self._strict or len(self.reports) < MAX_REPORTS:
            shown = line.strip()
            shown = shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}…"
            report = f"line {self._lines:,} of {self.name}: {shown!r} {error}"
            if self._strict:
                raise UsageError(report)
            self.reports.append(report)

    def _find_seed_text(self, line: str) -> str | None:
        """Return the text of the seed on a line, or None if the line is blank, a comment or the header of a table."""
        text = line.strip()
        if not text or text[0] == "#":
            return None
        if not text.isprintable():
            if "\0" in text:
                raise BadSeed("contains NUL characters: convert the file to UTF-8")
            if _SURROGATE.search(text):
                raise BadSeed("is not UTF-8")
        if "#" in text and '"' not in text:
            text = _COMMENT.split(text, maxsplit=1)[0].rstrip()
        is_first, self._is_first = self._is_first, False
        cells = self._split_row(text)
        if cells is None:
            return None if is_first and text.lower() in HEADERS else text
        for cell in cells:
            if _HOST_CELL.match(cell):
                return cell
        if is_first and not any(map(_NUMBER.fullmatch, cells)):
            self._table, self._delimiter = True, _find_delimiter(text)
            return None
        raise BadSeed("has no column with a host name or URL")

    def _split_row(self, text: str) -> Sequence[str] | None:
        """Return the cells of a row, or None if the line is not a row."""
        if self._table:
            if self._delimiter is None:
                self._delimiter = _find_delimiter(text)
            delimiter = self._delimiter
        else:
            found = _ROW.match(text)
            delimiter = None if found is None else found[1]
        if delimiter is None:
            return [text.strip('"')] if _QUOTED.fullmatch(text) else None
        if '"' not in text:
            return [cell.strip() for cell in text.split(delimiter)]
        try:
            return [cell.strip() for cell in next(csv.reader((text,), delimiter=delimiter, skipinitialspace=True))]
        except csv.Error as error:
            raise BadSeed(f"is not a row of a table: {error}") from error


def _find_delimiter(row: str) -> str | None:
    return next((one for one in DELIMITERS if one in row), None)
