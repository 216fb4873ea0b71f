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


def check_warc_indexes(out: Path, *, all_finished: bool = True) -> int:
    """Each index beside a WARC file has exactly its records. With `all_finished`, every file that is not the last one
    of its process has an index. Returns their number."""
    last: dict[str, Path] = {}
    for path in sorted(out.glob("*.warc.gz")):
        unique = path.name.split("-", 3)[3]
        if all_finished and unique in last:
            assert Path(f"{last[unique]}.cdxj").exists(), f"{last[unique].name} has no index"
        last[unique] = path
    indexes = sorted(out.glob("*.warc.gz.cdxj"))
    for index in indexes:
        lines = index.read_text().splitlines()
        assert lines == sorted(lines)
        fields = [json.loads(line.split(" ", 2)[2]) for line in lines]
        assert {one["filename"] for one in fields} <= {index.name.removesuffix(".cdxj")}
        warc = index.with_suffix("")
        assert Counter((one["url"], int(one["offset"])) for one in fields) == Counter(_list_records(warc)), index.name
    return len(indexes)


def _list_records(warc: Path) -> list[tuple[str, int]]:
    with warc.open("rb") as file:
        records = ArchiveIterator(file)
        return [
            (record.rec_headers.get_header("WARC-Target-URI"), records.get_record_offset())
            for record in records
            if record.rec_type in ("response", "revisit")
        ]
