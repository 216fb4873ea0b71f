"""Decode content codings: gzip, deflate, br and zstd, also chains of them, with a limit on the output size.

Bodies are untrusted. The limit bounds memory, whatever the body expands to. A corrupt stream yields the bytes before
the error. A body that has the label of a coding but is not encoded is returned unchanged.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, cast

import brotli
import zstandard
from isal import isal_zlib

MAX_CODINGS = 3
MAX_MEMBERS = 1_000  # per gzip body
WINDOW = 256 * 1024  # bytes per call of a decoder
SALVAGE_WINDOW = 512  # the same for a corrupt stream: at most this many bytes before the error are lost
ZSTD_WINDOW = 8 * 1024 * 1024  # RFC 9659: the largest window that a client has to support
GZIP, ZLIB, RAW = 31, 15, -15
GZIP_MAGIC = b"\x1f\x8b"

BROKEN: Final[tuple[type[Exception], ...]] = (
    cast("type[Exception]", isal_zlib.error),
    zlib.error,
    cast("type[Exception]", brotli.error),
    zstandard.ZstdError,
)
ENDS_EARLY = "ends prematurely"


class DecodedBody(NamedTuple):
    """A decoded body. `truncated` means that the limit was reached. `error` describes a defect of the stream."""

    body: bytes
    truncated: bool = False
    error: str | None = None


def decode_content(body: bytes, encodings: str | None, *, limit: int) -> DecodedBody:
    """Decode the codings in a Content-Encoding header, the last one first. Return at most `limit` bytes."""
    if not encodings:
        return _truncate(body, limit)
    names = [name for part in encodings.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    if len(names) > MAX_CODINGS:
        return _truncate(body, limit)._replace(error=f"{len(names)} codings, more than the limit of {MAX_CODINGS}")
    truncated = False
    error = None
    for name in reversed(names):
        decoder = DECODERS.get(name)
        if decoder is None:
            error = f"unknown coding {name[:40]!r}"
            break
        if not body:
            break  # many responses without a body have the header
        step = decoder(body, limit)
        body, truncated, error = step.body, truncated or step.truncated, step.error or error
        if step.error is not None and not body:
            break
    if len(body) > limit:
        return DecodedBody(body[:limit], True, error)
    return DecodedBody(body, truncated, error)


def _truncate(body: bytes, limit: int) -> DecodedBody:
    return DecodedBody(body) if len(body) <= limit else DecodedBody(body[:limit], True)


def _decode_gzip(body: bytes, limit: int) -> DecodedBody:
    if not body.startswith(GZIP_MAGIC):
        return DecodedBody(body, error="declared as gzip, but is not gzip")
    return _decode_or_salvage("gzip", body, limit, lambda window: _inflate_pieces(body, limit, GZIP, window))


def _decode_deflate(body: bytes, limit: int) -> DecodedBody:
    """Decode with or without the zlib header: the standard requires it and some servers omit it."""
    wrapped = len(body) > 1 and body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    first = _decode_or_salvage(
        "deflate", body, limit, lambda window: _inflate_pieces(body, limit, ZLIB if wrapped else RAW, window)
    )
    if not wrapped or first.body or first.error is None:
        return first
    return _decode_or_salvage("deflate", body, limit, lambda window: _inflate_pieces(body, limit, RAW, window))


def _inflate_pieces(body: bytes, limit: int, wbits: int, window: int) -> Iterator[bytes | str]:
    """Yield pieces of the decoded body, and a string if the end of the stream is wrong."""
    view = memoryview(body)
    room = limit + 1
    position = 0
    for _ in range(MAX_MEMBERS):
        decoder = isal_zlib.decompressobj(wbits=wbits)
        while position < len(body) and not decoder.eof:
            piece = decoder.decompress(view[position : position + window], room)
            position = min(position + window, len(body))
            yield piece
            room -= len(piece)
            if room <= 0:
                return
        if not decoder.eof:
            yield ENDS_EARLY
            return
        position -= len(decoder.unused_data)
        # Anything else after the end is padding, which some servers send.
        if wbits != GZIP or body[position : position + 2] != GZIP_MAGIC:
            return
    yield f"more than {MAX_MEMBERS} members"


def _decode_brotli(body: bytes, limit: int) -> DecodedBody:
    return _decode_or_salvage("br", body, limit, lambda window: _decode_brotli_pieces(body, limit, window))


def _decode_brotli_pieces(body: bytes, limit: int, window: int) -> Iterator[bytes | str]:
    view = memoryview(body)
    room = limit + 1
    decoder = brotli.Decompressor()
    for position in range(0, len(body), window):
        piece = decoder.process(view[position : position + window], output_buffer_limit=room)
        yield piece
        room -= len(piece)
        if room <= 0 or decoder.is_finished():
            return
    yield ENDS_EARLY


def _decode_zstd(body: bytes, limit: int) -> DecodedBody:
    return _decode_or_salvage("zstd", body, limit, lambda window: _decode_zstd_pieces(body, limit, window))


def _decode_zstd_pieces(body: bytes, limit: int, window: int) -> Iterator[bytes | str]:
    """Yield pieces. A premature end is detected only if the frame states its length; the library does not report it."""
    room = limit + 1
    reader = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).stream_reader(body, read_across_frames=True)
    came = 0
    while room > 0:
        piece = reader.read(min(room, window))
        if not piece:
            if came < zstandard.frame_content_size(body):
                yield ENDS_EARLY
            return
        yield piece
        came += len(piece)
        room -= len(piece)


def _decode_or_salvage(
    name: str, body: bytes, limit: int, pieces: Callable[[int], Iterator[bytes | str]]
) -> DecodedBody:
    """Decode in large steps. If the stream is corrupt, decode it again in small steps up to the error."""
    error: str | None = None
    parts: list[bytes] = []
    for window in (WINDOW, SALVAGE_WINDOW):
        parts.clear()
        try:
            for piece in pieces(window):
                if isinstance(piece, bytes):
                    parts.append(piece)
                else:
                    error = f"{name}: {piece}"
        except BROKEN as broken:
            error = f"{name}: {broken}"
            continue
        break
    whole = parts[0] if len(parts) == 1 else b"".join(parts)
    return DecodedBody(whole[:limit], True, error) if len(whole) > limit else DecodedBody(whole, False, error)


DECODERS: Final[dict[str, Callable[[bytes, int], DecodedBody]]] = {
    "gzip": _decode_gzip,
    "x-gzip": _decode_gzip,
    "deflate": _decode_deflate,
    "br": _decode_brotli,
    "zstd": _decode_zstd,
}
