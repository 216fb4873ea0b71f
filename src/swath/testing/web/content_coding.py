"""Content codings with the standard library only. Brotli and Zstandard streams consist of uncompressed blocks."""

import gzip
import zlib
from functools import lru_cache

_MEGABYTE = bytes(1 << 20)
_BROTLI_BLOCK = 1 << 16
_ZSTD_BLOCK = 1 << 17


def encode_gzip(body: bytes) -> bytes:
    return gzip.compress(body, compresslevel=1, mtime=0)


def encode_deflate(body: bytes) -> bytes:
    """Encode `deflate` as RFC 9110 defines it: with the zlib wrapper."""
    return zlib.compress(body, 1)


def encode_raw_deflate(body: bytes) -> bytes:
    """Encode `deflate` without the zlib wrapper, as some servers do and most clients accept."""
    press = zlib.compressobj(1, zlib.DEFLATED, -15)
    return press.compress(body) + press.flush()


def encode_brotli(body: bytes) -> bytes:
    """Return a valid Brotli stream (RFC 7932) of uncompressed meta-blocks."""
    out = bytearray()
    for start in range(0, len(body), _BROTLI_BLOCK):
        block = body[start : start + _BROTLI_BLOCK]
        # Not last (1 bit), 4 nibbles of length (2), the length - 1 (16), uncompressed (1); the window first (1).
        bits = (len(block) - 1) << 3 | 1 << 19
        out += (bits << 1 if start == 0 else bits).to_bytes(3, "little") + block
    return bytes(out) + (b"\x03" if body else b"\x06")  # last and empty


def encode_zstd(body: bytes) -> bytes:
    """Return a valid Zstandard frame (RFC 8878) of raw blocks."""
    out = bytearray((0xFD2FB528).to_bytes(4, "little"))
    out += b"\xa0" + len(body).to_bytes(4, "little")  # one segment, four bytes of content size, no checksum
    starts = range(0, len(body), _ZSTD_BLOCK) or range(1)
    for start in starts:
        block = body[start : start + _ZSTD_BLOCK]
        out += (len(block) << 3 | (start == starts[-1])).to_bytes(3, "little") + block
    return bytes(out)


@lru_cache(maxsize=4)
def make_gzip_bomb(megabytes: int) -> bytes:
    """Return a gzip stream of `megabytes` MB of zeros, without holding them in memory."""
    press = zlib.compressobj(9, zlib.DEFLATED, -15)
    chunk = press.compress(_MEGABYTE) + press.flush(zlib.Z_FULL_FLUSH)
    check = 0
    for _ in range(megabytes):
        check = zlib.crc32(_MEGABYTE, check)
    length = (megabytes << 20) % (1 << 32)
    header = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
    return header + chunk * megabytes + b"\x03\x00" + check.to_bytes(4, "little") + length.to_bytes(4, "little")
