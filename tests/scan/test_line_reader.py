"""Lines of streams that arrive in pieces of any size, and streams of compressed files."""

import gzip
import io
from collections.abc import Callable
from typing import IO

import pytest
import zstandard

from swath.scan.sources import line_reader, streams
from swath.scan.sources.line_reader import LineReader
from swath.scan.sources.streams import CompressedStream, PlainStream, StreamFault, open_gzip, open_zstd

TEXTS = [b"", b"\n", b"a", b"a\n", b"a\n\nb", b"aa\nb\n\nccc\n", b"\n\n", b"aaaaaa\nb"]
FAULT = StreamFault("damaged", "the test damaged it")


class Pieces:
    """A stream that returns a few bytes at a time."""

    def __init__(self, text: bytes, size: int, fault: StreamFault | None = None) -> None:
        self.fault: StreamFault | None = None
        self.consumed = 0
        self._text = text
        self._size = size
        self._fault = fault

    def read(self) -> bytes:
        piece = self._text[self.consumed : self.consumed + self._size]
        self.consumed += len(piece)
        if not piece:
            self.fault = self._fault
        return piece

    def close(self) -> None:
        pass


def split(text: bytes, first: int = 0) -> list[tuple[int, bytes | None, int]]:
    """All lines from an offset on, as the reader returns them."""
    found: list[tuple[int, bytes | None, int]] = []
    for line in text[first:].splitlines(keepends=True):
        found.append((first, line.removesuffix(b"\n"), len(line)))
        first += len(line)
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("text", TEXTS)
def test_lines_have_their_offsets(text: bytes, size: int) -> None:
    reader = LineReader(Pieces(text, size), 0)
    assert list(reader) == split(text)
    assert (reader.offset, reader.at_end) == (len(text), True)


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("text", TEXTS)
def test_lines_are_read_up_to_an_offset_and_from_there_on(text: bytes, size: int) -> None:
    for end in range(len(text) + 2):
        reader = LineReader(Pieces(text, size), 0)
        assert list(reader.read_until(end)) == [line for line in split(text) if line[0] < end]
        assert list(reader) == [line for line in split(text) if line[0] >= end]


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("text", TEXTS)
def test_the_next_line_begins_after_the_next_newline(text: bytes, size: int) -> None:
    for start in range(len(text) + 1):
        for end in range(start, len(text) + 2):
            reader = LineReader(Pieces(text[start:], size), start)
            newline = text.find(b"\n", start)
            expected = 0 <= newline < end - 1
            assert reader.skip_to_line(end) == expected, (start, end)
            if expected:
                assert list(reader) == split(text, newline + 1)


@pytest.mark.parametrize("size", [1, 2, 100])
def test_what_is_skipped_is_not_read_as_a_line(size: int) -> None:
    text = TEXTS[5]
    for offset in range(len(text) + 2):
        reader = LineReader(Pieces(text, size), 0)
        reader.skip(offset)
        assert reader.offset == min(offset, len(text))
        assert list(reader) == split(text, min(offset, len(text)))


@pytest.mark.parametrize("size", [1, 3, 100])
def test_half_a_line_before_damage_is_not_a_line(size: int) -> None:
    reader = LineReader(Pieces(b"a\nbb\ncc", size, FAULT), 0)
    assert list(reader) == split(b"a\nbb\n")
    assert (reader.offset, reader.at_end) == (5, True)


@pytest.mark.parametrize("size", [1, 3])
def test_a_line_that_is_too_long_has_an_offset_and_a_size_only(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader, "MAX_LINE", 6)
    reader = LineReader(Pieces(b"12345\n123456\n1\n1234567", size), 0)
    assert list(reader) == [(0, b"12345", 6), (6, None, 7), (13, b"1", 2), (15, None, 7)]


# streams


Compress = Callable[[bytes], bytes]
Open = Callable[[IO[bytes]], CompressedStream]


@pytest.fixture(params=["gzip", "zstd"])
def format(request: pytest.FixtureRequest) -> tuple[Compress, Open]:
    if request.param == "gzip":
        return gzip.compress, open_gzip
    return zstandard.ZstdCompressor().compress, open_zstd


def read_all(stream: PlainStream | CompressedStream) -> tuple[bytes, str | None]:
    found = b"".join(iter(stream.read, b""))
    assert stream.read() == b"", "it stays at its end"
    return found, None if stream.fault is None else stream.fault.code


def test_a_plain_stream_starts_at_its_offset() -> None:
    for start in (0, 1, 4, 5):
        stream = PlainStream(io.BytesIO(b"abcd"), start)
        assert read_all(stream) == (b"abcd"[start:], None)
        assert stream.consumed == len(b"abcd"[start:])


def test_members_follow_each_other_with_padding(format: tuple[Compress, Open], monkeypatch: pytest.MonkeyPatch) -> None:
    compress, open_stream = format
    packed = compress(b"first ") + compress(b"") + bytes(10) + compress(b"second") + bytes(10)
    for chunk in (1, 7, 1_000):
        monkeypatch.setattr(streams, "COMPRESSED_CHUNK", chunk)
        stream = open_stream(io.BytesIO(packed))
        assert read_all(stream) == (b"first second", None)
        assert stream.consumed == len(packed)


def test_everything_before_a_cut_or_damage_is_read(format: tuple[Compress, Open]) -> None:
    compress, open_stream = format
    whole = compress(b"first ")
    found, fault = read_all(open_stream(io.BytesIO(whole + compress(b"second")[:-3])))
    assert fault == "truncated"
    assert found.startswith(b"first ")
    assert b"first second".startswith(found)
    assert read_all(open_stream(io.BytesIO(whole + b"not compressed"))) == (b"first ", "damaged")
    assert read_all(open_stream(io.BytesIO(b""))) == (b"", None)
