"""robots.txt of all kinds, each on a host of its own. Its pages are under /open and /shut, by what RFC 9309 says."""

from collections.abc import Callable, Iterator

from swath.testing.web.answer import FOREVER_SECONDS, NOT_FOUND, Answer, Wait, closed, redirect, reply
from swath.testing.web.expectation import Fate
from swath.testing.web.faults.fault_page import Respond, Sketch, Spots, at_first
from swath.testing.web.page import simple_html
from swath.testing.web.plan import Plan

KIBIBYTE = 1024
RULES = "User-agent: *\nDisallow: /shut/\n"
SHUT_ALL = "User-agent: *\nDisallow: /\n"

SOME = """\
# Longest match; Allow wins a tie; * and $; case counts; percent-encoding does not.
User-agent: *
Disallow: /shut/
Allow: /shut/but-open/
Disallow: /tie/
Allow: /tie/
Disallow: /*.gif$
Disallow: /*/wild/*/card
Disallow: /query?
Allow: /query?ok=
Disallow: /exact$
Disallow: /Case/
Disallow: /caf%C3%A9/shut
Disallow: /öl/shut
Disallow: /%61bc/shut
Disallow:   /spaced/   # a comment
Disallow: /prefix
disallow: /lower-name/
Unknown: /unknown/
Disallow:
"""
SOME_OPEN = (
    "/open/1", "/shut/but-open/1", "/tie/1", "/a.gif?x", "/a.gifs", "/x/wild/card", "/query", "/query?ok=1",
    "/exact/not", "/case/1", "/caf%C3%A9/open", "/unknown/1", "/shut", "/spaced",
)  # fmt: skip
SOME_SHUT = (
    "/shut/1", "/shut/", "/a.gif", "/deep/b.gif", "/x/wild/y/card", "/x/wild/y/cards", "/query?no=1", "/exact",
    "/Case/1", "/caf%C3%A9/shut", "/%C3%B6l/shut", "/abc/shut", "/spaced/1", "/prefix", "/prefixed/1", "/lower-name/1",
)  # fmt: skip

AGENTS = """\
User-agent: swathbot
Disallow: /

User-agent: swa
Disallow: /

User-agent: *
Disallow: /star/

User-agent: other
User-agent: SWATH
Disallow: /ours/

User-agent: swath
Disallow: /ours-too/
"""

# The kinds that only say differently what RULES says.
SPELLINGS: dict[str, bytes] = {
    "bom": b"\xef\xbb\xbf" + RULES.encode(),
    "crlf": RULES.replace("\n", "\r\n").encode(),
    "cr": RULES.replace("\n", "\r").encode(),
    "unended": RULES.rstrip("\n").encode(),
    "upper-case": b"USER-AGENT: *\nDISALLOW: /shut/\n",
    "no-space": b"User-agent:*\nDisallow:/shut/",
    "comments": b"# x\nUser-agent: * # all\n\n# y\nDisallow: /shut/ # z\n",
    "nul": b"\0\xff\xfe\n" + RULES.encode() + b"\0\0",
}
# The kinds after which everything is allowed, and those after which nothing is.
ALLOWING: dict[str, Answer] = {
    "404": NOT_FOUND,
    "403": reply(403, SHUT_ALL.encode(), content_type="text/plain"),
    "401": reply(401, b"", content_type="text/plain"),
    "410": reply(410, SHUT_ALL.encode(), content_type="text/plain"),
    "empty": reply(200, b"", content_type="text/plain"),
    "html": reply(200, simple_html("robots.txt", ["/"], in_body="<pre>\nDisallow: /\n</pre>\n")),
    "no-group": reply(200, b"Disallow: /\n", content_type="text/plain"),
}
FORBIDDING: dict[str, Answer] = {
    "500": reply(500, b"User-agent: *\nAllow: /\n", content_type="text/plain"),
    "503": reply(503, b"", content_type="text/plain"),
    "closed": closed(),
    "cut": closed(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 900\r\n\r\nUser-agent: *\nAllow: /\n"
    ),
    "timeout": closed(Wait(FOREVER_SECONDS)),
    "all": reply(200, SHUT_ALL.encode(), content_type="text/plain"),
}


def spelling(name: str) -> Callable[[Plan], Iterator[Spots]]:
    return _host(f"robots-{name}", _text(SPELLINGS[name]))


def allowing(name: str) -> Callable[[Plan], Iterator[Spots]]:
    """Everything may be fetched, /shut/1 as well."""
    return _host(f"robots-{name}", ALLOWING[name], shut=Fate.MUST)


def forbidding(name: str) -> Callable[[Plan], Iterator[Spots]]:
    """Nothing may be fetched, the front page included."""
    return _host(f"robots-{name}", FORBIDDING[name], front=Fate.NEVER, opened=Fate.NEVER)


def some(plan: Plan) -> Iterator[Spots]:
    """The rules in SOME."""
    sketch = Sketch(plan, "robots-some")
    sketch.robots(_text(SOME.encode()))
    for target in SOME_OPEN:
        sketch.must(target)
    for target in SOME_SHUT:
        sketch.never(target)
    yield sketch.site()


def agents(plan: Plan) -> Iterator[Spots]:
    """Two groups for swath, which are one; others whose names only look like it."""
    sketch = Sketch(plan, "robots-agents")
    sketch.robots(_text(AGENTS.encode()))
    sketch.must("/open/1")
    sketch.must("/star/1")
    sketch.never("/ours/1")
    sketch.never("/ours-too/1")
    yield sketch.site()


def huge(plan: Plan) -> Iterator[Spots]:
    """A rule just within the first 500 KiB holds; for one beyond 600 KiB a crawler may have stopped reading."""
    sketch = Sketch(plan, "robots-huge")
    filler = "# nothing to see in this line of sixty-four characters or so ##\n"
    before = RULES + filler * (499 * KIBIBYTE // len(filler)) + "Disallow: /late/\n"
    sketch.robots(_text((before + filler * (101 * KIBIBYTE // len(filler)) + "Disallow: /too-late/\n").encode()))
    sketch.must("/open/1")
    sketch.never("/shut/1")
    sketch.never("/late/1")
    sketch.may("/too-late/1")
    yield sketch.site()


def delay(plan: Plan) -> Iterator[Spots]:
    """Crawl-delay of twice `patience`; `log.too_close` holds the crawler to it."""
    sketch = Sketch(plan, "robots-delay")
    sketch.robots(_text(f"User-agent: *\nCrawl-delay: {plan.patience * 2:g}\nDisallow: /shut/\n".encode()))
    for number in range(4):
        sketch.must(f"/open/{number}")
    sketch.never("/shut/1")
    yield sketch.site()


def redirected(hops: int) -> Callable[[Plan], Iterator[Spots]]:
    """robots.txt behind so many redirects. Five are followed; beyond, a crawler may do as if there were none."""

    def sites(plan: Plan) -> Iterator[Spots]:
        sketch = Sketch(plan, f"robots-redirect-{hops}")
        sketch.robots(redirect(301, f"/robots-{hops - 1}.txt"))
        for left in range(hops - 1, 0, -1):
            sketch.may(f"/robots-{left}.txt", redirect(302, f"/robots-{left - 1}.txt"), linked=False)
        sketch.may("/robots-0.txt", _text(RULES.encode()), linked=False)
        sketch.must("/open/1")
        if hops <= 5:
            sketch.never("/shut/1")
        else:
            sketch.may("/shut/1")
        yield sketch.site()

    return sites


def redirected_away(plan: Plan) -> Iterator[Spots]:
    """The rules come from another host, and hold for the one that was asked first."""
    keeper = Sketch(plan, "robots-redirect-away", "robots-keeper.demo.test")
    keeper.may("/for-others.txt", _text(RULES.encode()), linked=False)
    sketch = Sketch(plan, "robots-redirect-away")
    sketch.robots(redirect(302, keeper.url("/for-others.txt")))
    sketch.must("/open/1")
    sketch.never("/shut/1")
    yield sketch.site()
    yield keeper.site(introduced=False, front=Fate.NEVER)


def redirect_loop(plan: Plan) -> Iterator[Spots]:
    """A loop is more than five redirects; whether that is a missing file or a failing host is open."""
    return _host("robots-loop", redirect(302, "/robots.txt"), front=Fate.MAY, opened=Fate.MAY, shut=Fate.MAY)(plan)


def failing_at_first(plan: Plan) -> Iterator[Spots]:
    """500 twice, then the rules. A crawler that asks again before long gets everything; none gets /shut."""
    answer = at_first(2, reply(500, b"", content_type="text/plain"), _text(RULES.encode()))
    return _host("robots-500-at-first", answer, front=Fate.MAY, opened=Fate.MAY)(plan)


def _host(
    kind: str,
    answer: Answer | Respond,
    *,
    front: Fate = Fate.MUST,
    opened: Fate = Fate.MUST,
    shut: Fate = Fate.NEVER,
) -> Callable[[Plan], Iterator[Spots]]:
    def sites(plan: Plan) -> Iterator[Spots]:
        sketch = Sketch(plan, kind)
        sketch.robots(answer)
        for name, fate in (("open", opened), ("shut", shut)):
            for number in range(2):
                _place(sketch, f"/{name}/{number}", fate)
        yield sketch.site(front=front)

    return sites


def _place(sketch: Sketch, target: str, fate: Fate) -> None:
    if fate is Fate.MUST:
        sketch.must(target)
    elif fate is Fate.MAY:
        sketch.may(target)
    else:
        sketch.never(target)


def _text(body: bytes) -> Answer:
    return reply(200, body, content_type="text/plain; charset=utf-8")
