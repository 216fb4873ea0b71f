"""Bodies whose bytes are chosen to cost much, and what parsing them takes.

    python -m tests.crawl.page_bytes SIZE [NAME…]

Each body is decoded to SIZE bytes and parsed in a process of its own, after one of half that size. Prints one JSON
object per pattern.
"""

import json
import os
import pickle
import random
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from itertools import count
from resource import RUSAGE_SELF, getrusage

from swath.crawl.http.response import Response
from swath.crawl.parse.page import parse_page
from tests.crawl.handling import said

URL = "http://host.example/"
LONG = b"x" * 2_000
Piece = bytes | Callable[[int], bytes]

_HTML = (
    "\0|<|</|<a|<a>|</a>|&|&#|&#0;|&amp;|&notit|x| |\n|'|\"|\ufeff|<br>|<p>|<div>|<b>|<i><table>|<b><p>|"
    "<table>|<table><tr><td>|<td>|<template>|<svg>|<svg><desc>|<math><mi>|<select>|<option>|<button>|<li>|<font>|<nobr>|<b></a>|"
    "<b>x</p>|</p>|</br>|<ruby><rt>|<frameset>|<html a=b>|<a href=/x>|<a href='|"
    '<a href="&amp;|<a b="<a c=\'|<a |<a/|<a =|'
    "<base href=x>|<link rel=alternate href=/x>|<link rel=|<frame src=x>|<title>|"
    "<title>&amp;</title>|<meta |<meta charset=x>|"
    "<meta name=robots content='a,b'>|<meta http-equiv=refresh content='0;url=/x'>|<script>|<script></script>|"
    "<script><!--<script>|<textarea>|<plaintext>|<noscript>|<!--|<!---->|<!-- --!>|<![CDATA[|<svg><![CDATA[>]]>|<?|<!|"
    "<a href=/x rel=nofollow>|<p class='a b' id=c>|é|€|\U0001f600"
)
_XML = (
    "\0|<|<a>|</a>|<loc>|&|&amp;|x|\n|<item>|<!-- -->|<!--|<![CDATA[|<?x?>|<a b='c'/>|<a xml:base='x'>|<title>x|"
    "<link href='/x'/>|<url><loc>/x</loc></url>|http://h.example/\n"
)


def _once(first: str, rest: str) -> Piece:
    """Return what begins with one piece and then repeats another."""
    return lambda number: (rest if number else first).encode()


PATTERNS: dict[str, tuple[str, Piece]] = {
    **{f"html {piece!a}": ("text/html", piece.encode()) for piece in _HTML.split("|")},
    **{f"feed {piece!a}": ("application/rss+xml", _once("<rss>", piece)) for piece in _XML.split("|")},
    "html: links": ("text/html", lambda number: b"<a href=/%d>" % number),
    "html: long links": ("text/html", lambda number: b"<a href=/%d%s>" % (number, b"x" * 8_000)),
    "html: different attributes": ("text/html", lambda number: b" a%d" % number if number else b"<a"),
    "html: many attributes": ("text/html", b"<p " + b" ".join(b"a%d" % number for number in range(250)) + b">"),
    "html: reopened": ("text/html", lambda number: b"<b x=%d><p>" % number),
    "html: reopened slowly": ("text/html", lambda number: b"<b x=%d>" % number if number < 30 else b"<p>x"),
    "html: names": ("text/html", lambda number: b"<x%d>" % number),
    "html: wide text": ("text/html", _once("\U0001f600", "x" * 1_000)),
    "html: wide value": ("text/html", _once("\U0001f600<a href='", "&amp;" * 1_000)),
    "html: meta in the head": ("text/html", _once("<meta charset=", "a" * 1_000)),
    "html: attributes in the head": ("text/html", _once("charset<meta ", "a='" * 1_000)),
    "bytes that are not UTF-8": ("text/html;charset=utf-8", b"\xff"),
    "windows-1252": ("text/html;charset=windows-1252", b"\x80<a>"),
    "utf-16": ("text/html;charset=utf-16", "<a href=/x>".encode("utf-16le")),
    "utf-16, surrogates": ("text/html;charset=utf-16", "\U0001f600".encode("utf-16le")),
    "utf-16, half a surrogate": ("text/html;charset=utf-16", b"\x00\xd8"),
    "utf-16be, NULs": ("text/html;charset=utf-16be", b"\0\0"),
    "iso-2022-jp, escapes": ("text/html;charset=iso-2022-jp", b"\x1b$B\x1b(B"),
    "iso-2022-jp, no escapes": ("text/html;charset=iso-2022-jp", b"x"),
    "iso-2022-jp, never ASCII": ("text/html;charset=iso-2022-jp", lambda number: b"$\x22" if number else b"\x1b$B"),
    "iso-2022-jp, queries": ("text/html;charset=iso-2022-jp", lambda n: b"<a href='?%d\x1b$B$\x22\x1b(B'>" % n),
    "shift_jis, queries": ("text/html;charset=shift_jis", lambda n: b"<a href='?%d%s'>" % (n, b"\xff" * 8_000)),
    "gb18030": ("text/html;charset=gb18030", b"\x81\x30\x81\x30"),
    "big5": ("text/html;charset=big5", b"\x88\x62"),
    "feed: locations": ("text/xml", lambda n: b"<url><loc>http://h.example/%d</loc></url>" % n if n else b"<urlset>"),
    "feed: long base": (
        "text/xml",
        lambda n: (
            b"<url><loc>%d</loc></url>" % n if n else b"<urlset xml:base='http://h.example/%s/'>" % (b"x" * 2_000)
        ),
    ),
    "feed: different attributes": ("text/xml", lambda number: b" a%d=''" % number if number else b"<rss"),
    "feed: utf-16": ("text/xml", lambda n: ("<item>" if n else "\ufeff<rss>").encode("utf-16le")),
    "sitemap: text": ("text/plain", lambda number: b"http://h.example/%d\n" % number),
    "not a page": ("image/png", b"\0"),
}


def build_body(name: str, size: int) -> tuple[str, bytes]:
    """Return the content type and the bytes of a pattern. `mix SEED` is a random mixture of all of them."""
    if name.startswith("mix "):
        draw = random.Random(name)
        kind = draw.choice(
            ["text/html", "text/html;charset=" + draw.choice(["utf-16", "gbk", "iso-2022-jp"]), "text/xml"]
        )
        pieces = [piece if isinstance(piece, bytes) else piece(draw.randrange(9)) for _, piece in PATTERNS.values()]
        chosen = draw.sample(pieces, draw.randint(2, 6))
        part = b"".join(draw.choice(chosen)[:50] * draw.choice((1, 1, 1, 30)) for _ in range(50))
        return kind, (part * (size // len(part) + 1))[:size]
    kind, piece = PATTERNS[name]
    if isinstance(piece, bytes):
        return kind, (piece * (size // len(piece) + 1))[:size]
    body = bytearray()
    for number in count():
        body += piece(number)
        if len(body) >= size:
            return kind, bytes(body[:size])
    raise AssertionError


def build_response(name: str, size: int) -> Response:
    kind, body = build_body(name, size)
    packer = zlib.compressobj(1, wbits=31)
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Encoding: gzip\r\n\r\n".encode()
    return said(URL, 200, head, packer.compress(body) + packer.flush())


def measure(name: str, responses: Sequence[Response]) -> None:
    """Print the memory of parsing these responses one after the other, and the CPU time of each."""
    before = getrusage(RUSAGE_SELF).ru_maxrss
    seconds: list[float] = []
    error = None
    for response in responses:
        started = time.process_time()
        size = int(response.detail)
        page = parse_page(URL, response, limit=size, agent="swath", sitemap=name.startswith("sitemap"))
        seconds.append(time.process_time() - started)
        error = page.decode_error
        del page
    memory = (getrusage(RUSAGE_SELF).ru_maxrss - before) * 1024
    print(json.dumps({"name": name, "memory": memory, "seconds": seconds, "error": error}), flush=True)


def _build_elsewhere(name: str, size: int) -> Response:
    """Build a response in another process, so that this one does not keep memory that parsing could use."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        with open(writer, "wb") as file:
            pickle.dump(build_response(name, size), file)
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        response: Response = pickle.load(file)
    os.waitpid(child, 0)
    return response._replace(detail=str(size))


def main() -> None:
    size = int(sys.argv[1])
    for name in ("html: links", "feed: locations"):  # what is loaded once does not count
        parse_page(URL, build_response(name, 10_000), limit=10_000, agent="swath")
    for name in sys.argv[2:] or PATTERNS:
        responses = [_build_elsewhere(name, part) for part in (size // 2, size)]
        child = os.fork()
        if not child:
            measure(name, responses)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, (name, status)


if __name__ == "__main__":
    main()
