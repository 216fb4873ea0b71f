"""JSON Lines in ranges and sections: every line once, whatever is in the file."""

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from swath import Item
from swath.scan.sources import json_lines as module
from swath.scan.sources import line_reader
from swath.scan.sources.json_lines import JsonLinesSource
from swath.scan.sources.line_reader import LineReader
from swath.scan.sources.streams import CompressedStream, StreamFault, open_gzip, open_zstd
from tests.scan.driving import scan

contents = st.lists(st.binary(max_size=12).map(lambda raw: raw.replace(b"\n", b"")), max_size=12).map(b"\n".join)


class Bytes:
    """A stream of a few bytes at a time."""

    def __init__(self, content: bytes, start: int, step: int) -> None:
        self.fault: StreamFault | None = None
        self.consumed = 0
        self._file = io.BytesIO(content)
        self._file.seek(start)
        self._step = step

    def read(self) -> bytes:
        return self._file.read(self._step)

    def close(self) -> None:
        pass


def expected(content: bytes) -> list[tuple[int, bytes]]:
    """All lines with their offsets, found the plain way."""
    found, offset = [], 0
    for line in io.BytesIO(content):
        found.append((offset, line.removesuffix(b"\n")))
        offset += len(line)
    return found


@given(contents, st.integers(1, 9), st.integers(1, 9))
def test_ranges_of_any_size_have_each_line_once(content: bytes, size: int, step: int) -> None:
    found = []
    for lo in range(0, len(content), size):
        begin = max(0, lo - 1)
        lines = LineReader(Bytes(content, begin, step), begin)
        hi = min(lo + size, len(content))
        if not lo or lines.skip_to_line(hi):
            found += [(offset, text) for offset, text, _ in lines.read_until(hi)]
    assert found == expected(content)


@given(contents, st.integers(1, 9), st.data())
def test_a_line_can_be_read_again_by_its_offset(content: bytes, step: int, data: st.DataObject) -> None:
    if not (known := expected(content)):
        return
    offset, text = data.draw(st.sampled_from(known))
    lines = LineReader(Bytes(content, 0, step), 0)
    lines.skip(offset)
    assert next(iter(lines))[:2] == (offset, text)


def unpacked(stream: CompressedStream) -> bytes:
    return b"".join(iter(stream.read, b""))


@pytest.mark.parametrize(
    ("pack", "stream"),
    [(gzip.compress, open_gzip), (zstandard.ZstdCompressor().compress, open_zstd)],
    ids=["gzip", "zstd"],
)
def test_a_cut_stream_gives_what_there_is_and_says_so(
    pack: Callable[[bytes], bytes], stream: Callable[[io.BytesIO], CompressedStream]
) -> None:
    content = b"".join(b"%d\n" % number for number in range(50_000))
    members = pack(content[:100_000]) + pack(content[100_000:])
    whole = stream(io.BytesIO(members))
    assert unpacked(whole) == content
    assert whole.fault is None
    cut = stream(io.BytesIO(members[:-20]))
    assert content.startswith(unpacked(cut))
    assert cut.fault is not None
    assert cut.fault.code == "truncated"
    garbled = stream(io.BytesIO(pack(content[:100_000]) + b"garbage" * 10))
    assert unpacked(garbled) == content[:100_000]
    assert garbled.fault is not None
    assert garbled.fault.code == "damaged"


TROUBLE = b"".join(
    [
        b'\xef\xbb\xbf{"n": 2}\r\n',
        b"\n",
        b"  \n",
        b'{"n": 4\n',
        b'{"n": "\xff"}\n',
        b'{"n": 6}\0\n',
        b"[" * 100_000 + b"\n",
        b"9" * 5_000 + b"\n",
        b'{"n": 8}',
    ]
)


def test_broken_lines_are_findings_and_the_others_are_records(tmp_path: Path) -> None:
    source = tmp_path / "records.jsonl"
    source.write_bytes(TROUBLE)
    found = scan(source, tmp_path / "out.jsonl", check="odd")
    assert found.code == 1
    assert found.codes == {"not-json": 5}
    assert found.proof.counts.records == 7
    assert found.proof.counts.bytes == len(TROUBLE)
    offsets = sorted(int(key) for key in found.keys("not-json"))
    assert [TROUBLE[offset : offset + 3] for offset in offsets] == [b'{"n', b'{"n', b'{"n', b"[[[", b"999"]


def test_a_line_that_is_too_long_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader, "MAX_LINE", 300_000)
    source = tmp_path / "records.jsonl"
    source.write_bytes(b'{"n": 1}\n' + b"x" * 900_000 + b'\n{"n": 3}\n')
    assert scan(source, tmp_path / "out.jsonl", check="odd").codes == {"odd": 2, "too-long": 1}


def numbers(count: int) -> bytes:
    return b"".join(b'{"n": %d}\n' % number for number in range(count))


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_every_line_is_looked_at_once_however_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(module, "RANGE", 1_000)
    monkeypatch.setattr(module, "SECTION", 2_500)
    content = numbers(2_000)
    pack: dict[str, Callable[[bytes], bytes]] = {
        "": bytes,
        ".gz": gzip.compress,
        ".zst": zstandard.ZstdCompressor().compress,
    }
    source = tmp_path / f"records.jsonl{suffix}"
    source.write_bytes(pack[suffix](content))
    found = scan(source, tmp_path / "out.jsonl", check="odd")
    assert found.proof.counts.records == 2_000
    assert found.proof.counts.bytes == len(content)
    assert sorted(finding["data"]["n"] for finding in found.findings) == list(range(1, 2_000, 2))
    assert found.proof.status.done >= len(content) // 2_500


def test_a_line_that_begins_where_a_range_does_belongs_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RANGE", 120)
    source = tmp_path / "records.jsonl"
    source.write_bytes(b"".join(b'{"n": %d}\n' % number for number in range(1_000, 1_100)))  # of 12 bytes each
    found = scan(source, tmp_path / "out.jsonl", check="odd")
    assert found.proof.counts.records == 100
    assert found.proof.status.done == 10


def test_a_truncated_file_is_read_as_far_as_it_goes_and_then_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recheck goes on where the file ended: what was looked at before is not looked at again."""
    monkeypatch.setattr(module, "SECTION", 20_000)
    content = numbers(6_000)
    whole = gzip.compress(content)
    source = tmp_path / "records.jsonl.gz"
    source.write_bytes(whole[: len(whole) // 2])
    found = scan(source, tmp_path / "out.jsonl", check="odd")
    assert found.codes["truncated"] == 1
    records = found.proof.counts.records
    assert 1_000 < records < 5_000
    assert len(found.keys("odd")) == records // 2
    source.write_bytes(whole)
    again = scan(source, tmp_path / "out.jsonl", check="odd", recheck=True)
    assert again.proof.counts.records == 6_000
    assert again.proof.open == {"odd": 3_000}
    assert len(again.keys("odd")) == 3_000


def test_a_section_is_read_from_the_start_if_no_stream_is_paused_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash, another process has no paused stream."""
    monkeypatch.setattr(module, "SECTION", 100)
    path = tmp_path / "records.jsonl.gz"
    path.write_bytes(gzip.compress(numbers(100)))
    one, seen = JsonLinesSource(str(path)), []
    work = list(one.list_first_items(one.snapshot()))
    while work:
        source = JsonLinesSource(str(path))
        for step in source.read(work.pop().payload):
            if isinstance(step, Item):
                work.append(step)
            elif isinstance(step, list):
                seen += [record["n"] for record in step]
        source.close()
    assert seen == list(range(100))


def test_a_scan_of_a_file_that_shrank_cannot_resume(tmp_path: Path) -> None:
    source = JsonLinesSource(str(tmp_path / "records.jsonl"))
    (tmp_path / "records.jsonl").write_bytes(numbers(10))
    before = json.loads(json.dumps(source.snapshot()))
    assert source.explain_change(before) is None
    (tmp_path / "records.jsonl").write_bytes(numbers(12))
    assert source.explain_change(before) is None  # it grew: the end is where it was
    (tmp_path / "records.jsonl").write_bytes(numbers(9))
    assert "had 90 bytes" in str(source.explain_change(before))
