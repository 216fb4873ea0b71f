"""Bodies: packed in every way, too large, in charsets that are not what they say, in broken HTML."""

from collections.abc import Callable, Iterator
from urllib.parse import quote

from swath.testing.web import coding
from swath.testing.web.answer import Answer, Ask, Repeat, closed, head, reply
from swath.testing.web.faults.fault_page import Respond, Sketch, Spots
from swath.testing.web.faults.wire import HTML
from swath.testing.web.page import plain_page, simple_html
from swath.testing.web.plan import Plan
from swath.testing.web.seeded_random import Chance

PIECE = bytes(b"<p>more and more of it</p>\n" * 2500)  # of a huge body


def codings(plan: Plan) -> Iterator[Spots]:
    """Content codings that clients know, sent only to those who say so; and packed bodies that are broken."""
    sketch = Sketch(plan, "codings")
    known: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
        "gzip": ("gzip", coding.gzipped),
        "x-gzip": ("gzip", coding.gzipped),
        "deflate": ("deflate", coding.deflated),
        "deflate-raw": ("deflate", coding.deflated_raw),
        "br": ("br", coding.brotlied),
        "zstd": ("zstd", coding.zstandarded),
    }
    for name, (token, pack) in known.items():
        said = name if name == "x-gzip" else token
        sketch.must(f"/{name}", _negotiated(token, said, pack, simple_html(name, [f"/{name}/behind"])))
        sketch.must(f"/{name}/behind", linked=False)
    page = simple_html("Packed", ["/"], in_body="<p>a page worth packing</p>" * 100)
    packed = coding.gzipped(page)
    sketch.attempt("/gzip-cut", _says("gzip", packed[: len(packed) // 2]))
    sketch.attempt("/gzip-garbage", _says("gzip", packed[:20] + bytes(60) + packed[80:]))
    sketch.attempt("/gzip-checksum", _says("gzip", packed[:-8] + bytes(8)))
    sketch.attempt("/gzip-trailing", _says("gzip", packed + b"and then some"))
    sketch.attempt("/gzip-not", _says("gzip", page))
    sketch.attempt("/gzip-twice", _says("gzip, gzip", coding.gzipped(packed)))
    sketch.attempt("/unknown", _says("snail", page))
    yield sketch.site()


def large(plan: Plan) -> Iterator[Spots]:
    """Larger than anybody wants: a body, what it unpacks to, headers. Where it is cut is the crawler's affair."""
    sketch = Sketch(plan, "large")
    times = -(-plan.huge // len(PIECE))
    total = ("Content-Length", str(times * len(PIECE)))
    body = simple_html("Large", ["/"])
    sketch.attempt("/body", Answer(200, (head(200, [HTML, total]), Repeat(PIECE, times))))
    sketch.attempt("/body-without-length", closed(head(200, [HTML]), Repeat(PIECE, times)))
    sketch.attempt("/bomb", lambda _: _says("gzip", coding.bomb(plan.bomb_megabytes)))
    sketch.attempt("/bomb-twice", lambda _: _says("gzip, gzip", coding.gzipped(coding.bomb(plan.bomb_megabytes))))
    sketch.attempt("/header", reply(200, body, headers=[("X-Long", "x" * 400_000)]))
    sketch.attempt("/headers", reply(200, body, headers=[(f"X-Flood-{number}", "x" * 40) for number in range(10_000)]))
    sketch.attempt("/header-endless", closed(b"HTTP/1.1 200 OK\r\nX-Endless: ", Repeat(b"x" * 50_000, times)))
    sketch.attempt("/line", reply(200, b"<title>" + b"x" * 900_000))
    sketch.attempt("/deep", reply(200, b"<div>" * 150_000 + b"<a href='/'>x</a>"))
    attributes = " ".join(f"a{number}=1" for number in range(60_000))
    sketch.attempt("/attributes", reply(200, f"<p {attributes}><a href='/'>x</a>".encode()))
    yield sketch.site()


def charsets(plan: Plan) -> Iterator[Spots]:
    """Charsets by header, by meta, by mark, wrongly and not at all; what lies behind is found all the same.

    Where the charset is said rightly, the path of the link has letters in it, so that a page read in the wrong
    charset leads to a URL that nobody has. Elsewhere the link is plain ASCII.
    """
    sketch = Sketch(plan, "charsets")
    spoken = {
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
    for name, (by_header, by_meta, codec, word) in spoken.items():
        behind = f"/{name}/{word}"
        meta = f'<meta http-equiv="Content-Type" content="text/html; charset={by_meta}">' if by_meta else ""
        page = simple_html(f"{name} {word}", [behind], in_head=meta).decode().encode(codec)
        content_type = f"text/html; charset={by_header}" if by_header else "text/html"
        sketch.must(f"/{name}", reply(200, page, content_type=content_type))
        sketch.must(quote(behind), linked=False)
    text = "<p>größer, schöner, später, naïve, señor</p>" * 20
    wrong = {
        "utf-8-is-latin-1": ("utf-8", "latin-1"),
        "latin-1-is-utf-8": ("iso-8859-1", "utf-8"),
        "unknown": ("klingon", "utf-8"),
        "unsaid": ("", "latin-1"),
        "utf-7": ("utf-7", "utf-8"),
    }
    for name, (said, codec) in wrong.items():
        page = simple_html(name, [f"/{name}/behind"], in_body=text).decode().encode(codec)
        sketch.must(f"/{name}", reply(200, page, content_type=f"text/html; charset={said}" if said else "text/html"))
        sketch.must(f"/{name}/behind", linked=False)
    yield sketch.site()


def twins(plan: Plan) -> Iterator[Spots]:
    """The same bodies on many URLs of two hosts, with links in full that mean the same everywhere."""
    first, second = Sketch(plan, "twins", "twins-a.demo.test"), Sketch(plan, "twins", "twins-b.demo.test")
    for number in range(4):
        body = simple_html(f"Twin {number}", [first.url(f"/behind/{number}")], in_body="<p>word for word</p>" * 20)
        for sketch in (first, second):
            for copy in ("one", "two", "three"):
                sketch.must(f"/{copy}/{number}", reply(200, body))
        first.must(f"/behind/{number}", plain_page(f"Behind {number}", []), linked=False)
    yield first.site()
    yield second.site()


def binary(plan: Plan) -> Iterator[Spots]:
    """Bytes that are no text, called HTML all the same."""
    sketch = Sketch(plan, "binary")
    chance = Chance(plan.seed, "binary")
    sketch.must("/noise", reply(200, chance.bytes(5000).replace(b"<", b">"), content_type="text/html"))
    sketch.must("/png", reply(200, b"\x89PNG\r\n\x1a\n" + chance.bytes(2000).replace(b"<", b">")))
    sketch.must("/zeros", reply(200, bytes(5000)))
    nul = simple_html("Nul", ["/nul/behind"]).replace(b"<h1>", b"<h1>\0 and \0")
    sketch.must("/nul", reply(200, nul))
    sketch.must("/nul/behind", linked=False)
    sketch.must("/page-called-png.png", plain_page("A page called png", ["/png/behind"]))
    sketch.must("/png/behind", linked=False)
    yield sketch.site()


def _negotiated(token: str, said: str, pack: Callable[[bytes], bytes], page: bytes) -> Respond:
    def respond(ask: Ask) -> Answer:
        return _says(said, pack(page)) if token in ask.accept_encoding else reply(200, page)

    return respond


def _says(content_coding: str, body: bytes) -> Answer:
    return reply(200, body, headers=[("Content-Encoding", content_coding)])
