"""Bodies: every content coding, too large, in undeclared or wrong charsets, duplicated, binary."""

from collections.abc import Callable, Iterator
from urllib.parse import quote

from swath.testing.web import content_coding
from swath.testing.web.faults.fault_site import FaultSite, FaultSiteBuilder, Respond
from swath.testing.web.faults.wire import HTML
from swath.testing.web.page import render_html, reply_html
from swath.testing.web.plan import Plan
from swath.testing.web.scripted_response import Repeat, Request, ScriptedResponse, close_after, format_head, reply
from swath.testing.web.seeded_random import SeededRandom

PIECE = bytes(b"<p>more and more of it</p>\n" * 2500)  # of a huge body


def build_codings(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with content codings, sent only if the client accepts them, and with broken compressed bodies."""
    builder = FaultSiteBuilder(plan, "codings")
    known: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
        "gzip": ("gzip", content_coding.encode_gzip),
        "x-gzip": ("gzip", content_coding.encode_gzip),
        "deflate": ("deflate", content_coding.encode_deflate),
        "deflate-raw": ("deflate", content_coding.encode_raw_deflate),
        "br": ("br", content_coding.encode_brotli),
        "zstd": ("zstd", content_coding.encode_zstd),
    }
    for name, (token, pack) in known.items():
        said = name if name == "x-gzip" else token
        builder.must(f"/{name}", _negotiate(token, said, pack, render_html(name, [f"/{name}/behind"])))
        builder.must(f"/{name}/behind", linked=False)
    page = render_html("Packed", ["/"], in_body="<p>a page worth packing</p>" * 100)
    packed = content_coding.encode_gzip(page)
    builder.attempt("/gzip-cut", _reply_coded("gzip", packed[: len(packed) // 2]))
    builder.attempt("/gzip-garbage", _reply_coded("gzip", packed[:20] + bytes(60) + packed[80:]))
    builder.attempt("/gzip-checksum", _reply_coded("gzip", packed[:-8] + bytes(8)))
    builder.attempt("/gzip-trailing", _reply_coded("gzip", packed + b"and then some"))
    builder.attempt("/gzip-not", _reply_coded("gzip", page))
    builder.attempt("/gzip-twice", _reply_coded("gzip, gzip", content_coding.encode_gzip(packed)))
    builder.attempt("/unknown", _reply_coded("snail", page))
    yield builder.build()


def build_large(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with oversized bodies, decompressed bodies and headers. The crawler decides where to truncate."""
    builder = FaultSiteBuilder(plan, "large")
    times = -(-plan.huge_bytes // len(PIECE))
    total = ("Content-Length", str(times * len(PIECE)))
    body = render_html("Large", ["/"])
    builder.attempt("/body", ScriptedResponse(200, (format_head(200, [HTML, total]), Repeat(PIECE, times))))
    builder.attempt("/body-without-length", close_after(format_head(200, [HTML]), Repeat(PIECE, times)))
    builder.attempt("/bomb", lambda _: _reply_coded("gzip", content_coding.make_gzip_bomb(plan.bomb_megabytes)))
    builder.attempt(
        "/bomb-twice",
        lambda _: _reply_coded(
            "gzip, gzip", content_coding.encode_gzip(content_coding.make_gzip_bomb(plan.bomb_megabytes))
        ),
    )
    builder.attempt("/header", reply(200, body, headers=[("X-Long", "x" * 400_000)]))
    builder.attempt("/headers", reply(200, body, headers=[(f"X-Flood-{number}", "x" * 40) for number in range(10_000)]))
    builder.attempt("/header-endless", close_after(b"HTTP/1.1 200 OK\r\nX-Endless: ", Repeat(b"x" * 50_000, times)))
    builder.attempt("/line", reply(200, b"<title>" + b"x" * 900_000))
    builder.attempt("/deep", reply(200, b"<div>" * 150_000 + b"<a href='/'>x</a>"))
    attributes = " ".join(f"a{number}=1" for number in range(60_000))
    builder.attempt("/attributes", reply(200, f"<p {attributes}><a href='/'>x</a>".encode()))
    yield builder.build()


def build_charsets(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with charsets declared by header, meta or byte order mark, wrongly, or not at all.

    If the declaration is right, the link contains non-ASCII letters, so a page that is decoded wrongly leads to a URL
    that does not exist. Otherwise the link is ASCII, and a crawl finds it with any charset.
    """
    builder = FaultSiteBuilder(plan, "charsets")
    declared = {
        # name: (Content-Type's charset, meta's charset, codec, word)
        "latin-1": ("iso-8859-1", "", "latin-1", "né"),
        "latin-1-by-meta": ("", "iso-8859-1", "latin-1", "né"),
        "windows-1252": ("windows-1252", "", "cp1252", "cœur"),
        "latin-1-means-1252": ("latin1", "", "cp1252", "cœur"),
        "koi8-r": ("koi8-r", "", "koi8-r", "мир"),
        "shift-jis": ("Shift_JIS", "", "cp932", "日本"),
        "shift-jis-by-meta": ("", "shift_jis", "cp932", "日本"),
        "euc-jp-by-meta": ("", "euc-jp", "euc_jp", "日本"),
        "gbk-called-gb2312": ("gb2312", "", "gbk", "镕"),
        "big5": ("big5", "", "big5", "中文"),
        "utf-16-marked": ("", "", "utf-16", "日本"),
        "utf-8-mark-beats-header": ("iso-8859-1", "", "utf-8-sig", "日本"),
        "header-beats-meta": ("utf-8", "iso-8859-1", "utf-8", "日本"),
        "quoted": ('"utf-8"', "", "utf-8", "日本"),
    }
    for name, (by_header, by_meta, codec, word) in declared.items():
        behind = f"/{name}/{word}"
        meta = f'<meta http-equiv="Content-Type" content="text/html; charset={by_meta}">' if by_meta else ""
        page = render_html(f"{name} {word}", [behind], in_head=meta).decode().encode(codec)
        content_type = f"text/html; charset={by_header}" if by_header else "text/html"
        builder.must(f"/{name}", reply(200, page, content_type=content_type))
        builder.must(quote(behind), linked=False)
    text = "<p>größer, schöner, später, naïve, señor</p>" * 20
    wrong = {
        "utf-8-is-latin-1": ("utf-8", "latin-1"),
        "latin-1-is-utf-8": ("iso-8859-1", "utf-8"),
        "unknown": ("klingon", "utf-8"),
        "unsaid": ("", "latin-1"),
        "utf-7": ("utf-7", "utf-8"),
    }
    for name, (said, codec) in wrong.items():
        page = render_html(name, [f"/{name}/behind"], in_body=text).decode().encode(codec)
        builder.must(f"/{name}", reply(200, page, content_type=f"text/html; charset={said}" if said else "text/html"))
        builder.must(f"/{name}/behind", linked=False)
    yield builder.build()


def build_twins(plan: Plan) -> Iterator[FaultSite]:
    """Build two hosts with the same bodies on many URLs. Their links are absolute, so they mean the same everywhere."""
    first, second = (
        FaultSiteBuilder(plan, "twins", "twins-a.demo.test"),
        FaultSiteBuilder(plan, "twins", "twins-b.demo.test"),
    )
    for number in range(4):
        body = render_html(f"Twin {number}", [first.url(f"/behind/{number}")], in_body="<p>word for word</p>" * 20)
        for builder in (first, second):
            for copy in ("one", "two", "three"):
                builder.must(f"/{copy}/{number}", reply(200, body))
        first.must(f"/behind/{number}", reply_html(f"Behind {number}", []), linked=False)
    yield first.build()
    yield second.build()


def build_binary(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with binary bodies that are declared as HTML."""
    builder = FaultSiteBuilder(plan, "binary")
    random = SeededRandom(plan.seed, "binary")
    builder.must("/noise", reply(200, random.bytes(5000).replace(b"<", b">"), content_type="text/html"))
    builder.must("/png", reply(200, b"\x89PNG\r\n\x1a\n" + random.bytes(2000).replace(b"<", b">")))
    builder.must("/zeros", reply(200, bytes(5000)))
    nul = render_html("Nul", ["/nul/behind"]).replace(b"<h1>", b"<h1>\0 and \0")
    builder.must("/nul", reply(200, nul))
    builder.must("/nul/behind", linked=False)
    builder.must("/page-called-png.png", reply_html("A page called png", ["/png/behind"]))
    builder.must("/png/behind", linked=False)
    yield builder.build()


def _negotiate(token: str, said: str, pack: Callable[[bytes], bytes], page: bytes) -> Respond:
    def respond(request: Request) -> ScriptedResponse:
        return _reply_coded(said, pack(page)) if token in request.accept_encoding else reply(200, page)

    return respond


def _reply_coded(content_coding: str, body: bytes) -> ScriptedResponse:
    return reply(200, body, headers=[("Content-Encoding", content_coding)])
