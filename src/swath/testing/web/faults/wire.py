"""Responses that are slow, interrupted, or not HTTP."""

from collections.abc import Iterator

from swath.testing.web.faults.fault_site import FaultSite, FaultSiteBuilder
from swath.testing.web.page import encode_chunked, render_html
from swath.testing.web.plan import Plan
from swath.testing.web.scripted_response import (
    FOREVER_SECONDS,
    End,
    ScriptedResponse,
    Step,
    Wait,
    close_after,
    format_head,
    reply,
)

PIECES = 20  # of a response that is sent in small pieces
HTML = ("Content-Type", "text/html; charset=utf-8")


def build_slow(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with slow responses. /first-byte and /dribble take `slow_seconds`; the others never finish."""
    builder = FaultSiteBuilder(plan, "slow")
    body = render_html("Slowly", ["/"], in_body="<p>word by word</p>" * 40)
    start = format_head(200, [HTML, ("Content-Length", str(len(body)))])
    pause, forever = Wait(plan.slow_seconds / PIECES), Wait(FOREVER_SECONDS)
    builder.must("/first-byte", ScriptedResponse(200, (Wait(plan.slow_seconds), start + body)))
    builder.must("/dribble", ScriptedResponse(200, (start, *_dribble(body, pause))))
    builder.must("/dribbled-headers", ScriptedResponse(200, (*_dribble(start, pause), pause, body)))
    builder.attempt("/hang", close_after(forever))
    builder.attempt("/hang-in-headers", close_after(start[:40], forever))
    builder.attempt("/hang-in-body", close_after(start, body[:100], forever))
    long = format_head(200, [HTML, ("Content-Length", "100000")])
    drops: tuple[Step, ...] = (b".", Wait(plan.slow_seconds / 4)) * 20_000
    builder.attempt("/drip", close_after(long, *drops))
    yield builder.build()


def build_broken(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with resets, wrong lengths, bad chunks and garbage: nothing that can be archived completely."""
    builder = FaultSiteBuilder(plan, "broken")
    body = render_html("Broken", ["/"], in_body="<p>still here</p>" * 200)
    length = ("Content-Length", str(len(body)))
    chunks = encode_chunked(body, 500)
    in_chunks = format_head(200, [HTML, ("Transfer-Encoding", "chunked")])
    pages = {
        "reset-in-body": ScriptedResponse(0, (format_head(200, [HTML, length]) + body[:1000], Wait(0.05)), End.RESET),
        "reset-at-once": ScriptedResponse(0, (), End.RESET),
        "closed-at-once": close_after(),
        "closed-in-headers": close_after(format_head(200, [HTML, length])[:-2]),
        "length-too-long": close_after(format_head(200, [HTML, ("Content-Length", str(len(body) + 5000))]) + body),
        "length-too-short": close_after(format_head(200, [HTML, ("Content-Length", "100")]) + body),
        "length-negative": close_after(format_head(200, [HTML, ("Content-Length", "-1")]) + body),
        "length-no-number": close_after(format_head(200, [HTML, ("Content-Length", "many")]) + body),
        "lengths-differ": close_after(format_head(200, [HTML, ("Content-Length", "10"), length]) + body),
        "chunk-size-garbage": close_after(in_chunks + b"zz\r\n" + chunks),
        "chunk-size-huge": close_after(in_chunks + b"ffffffffffffffffff\r\n" + body),
        "chunks-cut": close_after(in_chunks + chunks[:1200]),
        "chunks-unended": close_after(in_chunks + chunks[: -len(b"0\r\n\r\n")]),
        "status-garbage": close_after(b"HTP/9.9 BANANA\r\n\r\n" + body),
        "status-negative": close_after(b"HTTP/1.1 -20 No\r\n\r\n" + body),
        "status-four-digits": close_after(b"HTTP/1.1 2000 OK\r\n\r\n" + body),
        "headless": close_after(body),
        "noise": close_after(bytes(range(256)) * 8),
        "header-without-colon": close_after(b"HTTP/1.1 200 OK\r\nthis is not a header\r\n\r\n" + body),
        "header-with-nul": close_after(b"HTTP/1.1 200 OK\r\nX-Nul: a\0b\r\n\r\n" + body),
        "interim-forever": close_after(b"HTTP/1.1 100 Continue\r\n\r\n" * 2000),
    }
    for name, response in pages.items():
        builder.attempt(f"/{name}", response)
    yield builder.build()


def build_unusual(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with unusual responses that are valid."""
    builder = FaultSiteBuilder(plan, "unusual")
    body = render_html("Unusual", ["/"])
    length = ("Content-Length", str(len(body)))
    usual = format_head(200, [HTML, length])
    until_close = ScriptedResponse(200, (format_head(200, [HTML, ("Connection", "close")]) + body,), End.CLOSE)
    old = ScriptedResponse(200, (b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n" + body,), End.CLOSE)
    builder.must("/until-close", until_close)
    builder.must("/http-1.0", old)
    builder.must("/empty", reply(200))
    builder.must("/no-type", reply(200, body, content_type=None))
    builder.must("/no-reason", ScriptedResponse(200, (usual.replace(b"200 OK", b"200 ") + body,)))
    builder.must("/continue", ScriptedResponse(200, (b"HTTP/1.1 100 Continue\r\n\r\n" + usual + body,)))
    builder.must(
        "/early-hints", ScriptedResponse(200, (b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n" + usual + body,))
    )
    builder.must("/lower-case", ScriptedResponse(200, (usual.replace(b"Content-", b"content-") + body,)))
    trailer = (
        format_head(200, [HTML, ("Transfer-Encoding", "chunked")]) + encode_chunked(body, 50)[:-2] + b"X-Sum: 1\r\n\r\n"
    )
    builder.must("/trailer", ScriptedResponse(200, (trailer,)))
    extended = encode_chunked(body, 90).replace(b"5a\r\n", b"5A;name=value\r\n")
    builder.must(
        "/chunk-extension",
        ScriptedResponse(200, (format_head(200, [HTML, ("Transfer-Encoding", "chunked")]) + extended,)),
    )
    builder.must("/closes-silently", ScriptedResponse(200, (usual + body,), End.CLOSE))
    yield builder.build()


def _dribble(data: bytes, pause: Wait) -> Iterator[Step]:
    length = -(-len(data) // PIECES)
    for start in range(0, len(data), length):
        if start:
            yield pause  # not after the last piece: the client has its response then
        yield data[start : start + length]
