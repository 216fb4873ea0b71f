"""Content codings: right where they are right, bounded and forgiving where they are not."""

import gzip
import random
import subprocess
import sys
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from swath.crawl.http.content_coding import MAX_MEMBERS, SALVAGE_WINDOW, WINDOW, decode_content

LIMIT = 10_000_000


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda data: brotli.compress(data, quality=5),
    "zstd": zstandard.ZstdCompressor().compress,
}
DRAW = random.Random(7)
TEXT = b"".join(b"<p>%d</p>" % DRAW.randrange(10**9) for _ in range(40_000))


@pytest.mark.parametrize("coding", PACKERS)
def test_every_coding_is_taken_off(coding: str) -> None:
    assert decode_content(PACKERS[coding](TEXT), coding, limit=LIMIT) == (TEXT, False, None)
    assert decode_content(PACKERS[coding](TEXT), f" {coding.upper()} ", limit=LIMIT) == (TEXT, False, None)
    assert decode_content(PACKERS[coding](b""), coding, limit=LIMIT) == (b"", False, None)


def test_deflate_without_its_header() -> None:
    assert decode_content(raw_deflate(TEXT), "deflate", limit=LIMIT) == (TEXT, False, None)


def test_raw_deflate_that_looks_like_a_header() -> None:
    for seed in range(200):
        data = random.Random(seed).randbytes(40)
        packed = raw_deflate(data)
        assert decode_content(packed, "deflate", limit=LIMIT).body == data


@pytest.mark.parametrize("encodings", [None, "", "identity", " , "])
def test_nothing_to_take_off(encodings: str | None) -> None:
    assert decode_content(TEXT, encodings, limit=LIMIT) == (TEXT, False, None)
    assert decode_content(TEXT, encodings, limit=10) == (TEXT[:10], True, None)


def test_chains_come_off_from_the_end() -> None:
    assert decode_content(brotli.compress(gzip.compress(TEXT)), "gzip, br", limit=LIMIT) == (TEXT, False, None)
    four = TEXT
    for _ in range(4):
        four = gzip.compress(four)
    refused = decode_content(four, "gzip, gzip, gzip, gzip", limit=LIMIT)
    assert refused.body == four
    assert refused.error == "4 codings, more than the limit of 3"


def test_members_of_gzip_follow_each_other_and_padding_is_ignored() -> None:
    members = b"".join(gzip.compress(TEXT[i : i + 5_000]) for i in range(0, len(TEXT), 5_000))
    assert decode_content(members, "gzip", limit=LIMIT) == (TEXT, False, None)
    assert decode_content(members + b"\0" * 100, "gzip", limit=LIMIT) == (TEXT, False, None)


def test_members_are_counted() -> None:
    result = decode_content(gzip.compress(b"") * (MAX_MEMBERS + 5), "gzip", limit=LIMIT)
    assert result == (b"", False, f"gzip: more than {MAX_MEMBERS} members")


@pytest.mark.parametrize("coding", PACKERS)
def test_the_limit_is_exact(coding: str) -> None:
    packed = PACKERS[coding](TEXT)
    assert decode_content(packed, coding, limit=len(TEXT)) == (TEXT, False, None)
    assert decode_content(packed, coding, limit=len(TEXT) - 1)[:2] == (TEXT[:-1], True)
    assert decode_content(packed, coding, limit=100)[:2] == (TEXT[:100], True)


@pytest.mark.parametrize("coding", PACKERS)
def test_a_stream_that_ends_early_gives_what_came(coding: str) -> None:
    packed = PACKERS[coding](TEXT)
    result = decode_content(packed[: len(packed) * 3 // 4], coding, limit=LIMIT)
    assert result.error == f"{coding.removeprefix('x-')}: ends prematurely"
    assert len(result.body) > 20_000
    assert TEXT.startswith(result.body)


@pytest.mark.parametrize("coding", PACKERS)
def test_a_broken_stream_gives_what_came_before_the_break(coding: str) -> None:
    packed = bytearray(PACKERS[coding](TEXT))
    where = len(packed) * 2 // 3
    packed[where : where + 2_000] = b"\xff" * 2_000
    result = decode_content(bytes(packed), coding, limit=LIMIT)
    assert result.error is not None
    assert len(result.body) > 20_000
    assert result.body[:20_000] == TEXT[:20_000]


def test_at_most_a_window_is_lost_before_the_break() -> None:
    noise = random.Random(3).randbytes(100_000)  # does not shrink, so that input and output keep pace
    packed = bytearray(gzip.compress(noise))
    packed[-8:] = b"\0" * 8  # the checksum
    result = decode_content(bytes(packed), "gzip", limit=LIMIT)
    assert result.error is not None
    assert len(result.body) >= len(noise) - 2 * SALVAGE_WINDOW


def test_what_came_before_the_break_comes_once() -> None:
    """Also if large steps had come some way before it."""
    raw = random.Random(5).randbytes(5 * WINDOW)
    packed = bytearray(zlib.compress(raw, 0))
    packed[-WINDOW : -WINDOW + 10] = b"\xff" * 10
    found = decode_content(bytes(packed), "deflate", limit=100 * WINDOW)
    assert found.error is not None
    assert len(found.body) > WINDOW
    assert raw.startswith(found.body[: 3 * WINDOW])
    assert len(found.body) <= len(raw)


def test_the_first_error_is_reported() -> None:
    assert (decode_content(b"\xff\xff", "other, deflate", limit=100).error or "").startswith("deflate: ")
    assert decode_content(b"", "other, deflate", limit=100).error is None


def test_a_label_without_the_coding() -> None:
    assert decode_content(TEXT, "gzip", limit=LIMIT) == (TEXT, False, "declared as gzip, but is not gzip")
    assert decode_content(TEXT, "compress", limit=LIMIT) == (TEXT, False, "unknown coding 'compress'")
    assert decode_content(b"", "gzip", limit=LIMIT) == (b"", False, None)


@given(st.binary(max_size=300), st.sampled_from([*PACKERS, "gzip, br", "zstd,deflate", "x,gzip"]), st.integers(0, 500))
def test_no_exception_escapes(body: bytes, encodings: str, limit: int) -> None:
    for data in (body, b"\x1f\x8b\x08" + body, b"\x28\xb5\x2f\xfd" + body, b"\x78\x9c" + body):
        assert len(decode_content(data, encodings, limit=limit).body) <= limit


BOMBS = """
import resource, sys, zlib, brotli, zstandard
from swath.crawl.http.content_coding import decode_content
def gzip_bomb(size):
    packer = zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()
def brotli_bomb(size):
    packer = brotli.Compressor(quality=5)
    return b"".join(packer.process(bytes(1 << 20)) for _ in range(size >> 20)) + packer.finish()
def zstd_bomb(size):
    packer = zstandard.ZstdCompressor().compressobj()
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()
bombs = {"gzip": gzip_bomb(1 << 27), "br": brotli_bomb(1 << 27), "zstd": zstd_bomb(1 << 27)}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for name, bomb in bombs.items():
    result = decode_content(bomb, name, limit=8 << 20)
    assert len(result.body) == 8 << 20 and result.truncated, name
twice = decode_content(zlib.compress(bombs["gzip"]), "gzip, deflate", limit=8 << 20)
assert len(twice.body) == 8 << 20 and twice.truncated
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_bombs_are_cut_within_bounded_memory() -> None:
    done = subprocess.run([sys.executable, "-c", BOMBS], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 100 << 20
