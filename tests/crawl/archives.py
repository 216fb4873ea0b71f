"""Read an archive with an independent tool, warcio."""

import contextlib
import io
import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import brotli
from warcio.archiveiterator import ArchiveIterator
from warcio.bufferedreaders import BufferedReader
from warcio.checker import Checker

ROBOTS = re.compile(r"/robots(-\d+)?\.txt$")  # also the hops of `robots-redirect-N` in the demo web


class _Brotli:
    """What warcio expects of brotli's unpacker, which no longer takes an attribute of others."""

    unused_data = None

    def __init__(self) -> None:
        self._unpacker = brotli.Decompressor()

    def decompress(self, data: bytes) -> bytes:
        return bytes(self._unpacker.process(data))


BufferedReader.DECOMPRESSORS["br"] = _Brotli


def archived_urls(out: Path) -> set[str]:
    """The URLs that have a response or a revisit in the archive; each has one, but for robots.txt and what it redirects
    to, which are asked for again where that failed."""
    found: list[str] = []
    for path in sorted(out.glob("*.warc.gz")):
        with path.open("rb") as file:
            found += [
                record.rec_headers.get_header("WARC-Target-URI")
                for record in ArchiveIterator(file)
                if record.rec_type in ("response", "revisit")
            ]
    twice = [url for url, count in Counter(found).items() if count > 1 and not ROBOTS.search(url)]
    assert twice == [], f"in the archive twice: {twice}"
    return set(found)


def check_records(out: Path) -> None:
    """Digests and structure are right."""
    command = SimpleNamespace(inputs=[str(path) for path in sorted(out.glob("*.warc.gz"))], verbose=False)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        checker = Checker(command)
        checker.process_all()
    assert checker.exit_value == 0, said.getvalue()


def check_archive(out: Path) -> None:
    """The records are right, and the index points to those that it names."""
    check_records(out)
    index = out / "index.cdxj"
    lines = index.read_text().splitlines()
    assert lines == sorted(lines)
    for line in lines[:: max(1, len(lines) // 50)]:
        fields = json.loads(line.split(" ", 2)[2])
        with (out / fields["filename"]).open("rb") as file:
            file.seek(int(fields["offset"]))
            record = next(iter(ArchiveIterator(file)))
            assert record.rec_headers.get_header("WARC-Target-URI") == fields["url"]
