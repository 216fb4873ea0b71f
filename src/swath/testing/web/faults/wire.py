"""Answers that are slow, cut off, or no HTTP at all."""

from collections.abc import Iterator

from swath.testing.web.answer import FOREVER_SECONDS, Answer, End, Step, Wait, closed, head, reply
from swath.testing.web.faults.fault_page import Sketch, Spots
from swath.testing.web.page import chunked, simple_html
from swath.testing.web.plan import Plan

PIECES = 20  # of a dribbling answer
HTML = ("Content-Type", "text/html; charset=utf-8")


def slow(plan: Plan) -> Iterator[Spots]:
    """/first-byte and /dribble take `patience` seconds and end well; the others outlast every timeout."""
    sketch = Sketch(plan, "slow")
    body = simple_html("Slowly", ["/"], in_body="<p>word by word</p>" * 40)
    start = head(200, [HTML, ("Content-Length", str(len(body)))])
    pause, forever = Wait(plan.patience / PIECES), Wait(FOREVER_SECONDS)
    sketch.must("/first-byte", Answer(200, (Wait(plan.patience), start + body)))
    sketch.must("/dribble", Answer(200, (start, *_dribble(body, pause))))
    sketch.must("/dribbled-headers", Answer(200, (*_dribble(start, pause), body)))
    sketch.attempt("/hang", closed(forever))
    sketch.attempt("/hang-in-headers", closed(start[:40], forever))
    sketch.attempt("/hang-in-body", closed(start, body[:100], forever))
    long = head(200, [HTML, ("Content-Length", "100000")])
    drops: tuple[Step, ...] = (b".", Wait(plan.patience / 4)) * 20_000
    sketch.attempt("/drip", closed(long, *drops))
    yield sketch.site()


def broken(plan: Plan) -> Iterator[Spots]:
    """Resets, wrong lengths, bad chunks, garbage: nothing that could be archived as it should be."""
    sketch = Sketch(plan, "broken")
    body = simple_html("Broken", ["/"], in_body="<p>still here</p>" * 200)
    length = ("Content-Length", str(len(body)))
    chunks = chunked(body, 500)
    in_chunks = head(200, [HTML, ("Transfer-Encoding", "chunked")])
    spots = {
        "reset-in-body": Answer(0, (head(200, [HTML, length]) + body[:1000], Wait(0.05)), End.RESET),
        "reset-at-once": Answer(0, (), End.RESET),
        "closed-at-once": closed(),
        "closed-in-headers": closed(head(200, [HTML, length])[:-2]),
        "length-too-long": closed(head(200, [HTML, ("Content-Length", str(len(body) + 5000))]) + body),
        "length-too-short": closed(head(200, [HTML, ("Content-Length", "100")]) + body),
        "length-negative": closed(head(200, [HTML, ("Content-Length", "-1")]) + body),
        "length-no-number": closed(head(200, [HTML, ("Content-Length", "many")]) + body),
        "lengths-differ": closed(head(200, [HTML, ("Content-Length", "10"), length]) + body),
        "chunk-size-garbage": closed(in_chunks + b"zz\r\n" + chunks),
        "chunk-size-huge": closed(in_chunks + b"ffffffffffffffffff\r\n" + body),
        "chunks-cut": closed(in_chunks + chunks[:1200]),
        "chunks-unended": closed(in_chunks + chunks[: -len(b"0\r\n\r\n")]),
        "status-garbage": closed(b"HTP/9.9 BANANA\r\n\r\n" + body),
        "status-negative": closed(b"HTTP/1.1 -20 No\r\n\r\n" + body),
        "status-four-digits": closed(b"HTTP/1.1 2000 OK\r\n\r\n" + body),
        "headless": closed(body),
        "noise": closed(bytes(range(256)) * 8),
        "header-without-colon": closed(b"HTTP/1.1 200 OK\r\nthis is no header\r\n\r\n" + body),
        "header-with-nul": closed(b"HTTP/1.1 200 OK\r\nX-Nul: a\0b\r\n\r\n" + body),
        "interim-forever": closed(b"HTTP/1.1 100 Continue\r\n\r\n" * 2000),
    }
    for name, answer in spots.items():
        sketch.attempt(f"/{name}", answer)
    yield sketch.site()


def unusual(plan: Plan) -> Iterator[Spots]:
    """Answers that look wrong and are right."""
    sketch = Sketch(plan, "unusual")
    body = simple_html("Unusual", ["/"])
    length = ("Content-Length", str(len(body)))
    usual = head(200, [HTML, length])
    until_close = Answer(200, (head(200, [HTML, ("Connection", "close")]) + body,), End.CLOSE)
    old = Answer(200, (b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n" + body,), End.CLOSE)
    sketch.must("/until-close", until_close)
    sketch.must("/http-1.0", old)
    sketch.must("/empty", reply(200))
    sketch.must("/no-type", reply(200, body, content_type=None))
    sketch.must("/no-reason", Answer(200, (usual.replace(b"200 OK", b"200 ") + body,)))
    sketch.must("/continue", Answer(200, (b"HTTP/1.1 100 Continue\r\n\r\n" + usual + body,)))
    sketch.must("/early-hints", Answer(200, (b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n" + usual + body,)))
    sketch.must("/lower-case", Answer(200, (usual.replace(b"Content-", b"content-") + body,)))
    trailer = head(200, [HTML, ("Transfer-Encoding", "chunked")]) + chunked(body, 50)[:-2] + b"X-Sum: 1\r\n\r\n"
    sketch.must("/trailer", Answer(200, (trailer,)))
    extended = chunked(body, 90).replace(b"5a\r\n", b"5A;name=value\r\n")
    sketch.must("/chunk-extension", Answer(200, (head(200, [HTML, ("Transfer-Encoding", "chunked")]) + extended,)))
    sketch.must("/closes-silently", Answer(200, (usual + body,), End.CLOSE))
    yield sketch.site()


def _dribble(data: bytes, pause: Wait) -> Iterator[Step]:
    length = -(-len(data) // PIECES)
    for start in range(0, len(data), length):
        yield data[start : start + length]
        yield pause
