"""robots.txt files of all kinds, one per host. By RFC 9309, pages under /open are allowed and under /shut are not."""

from collections.abc import Callable, Iterator

from swath.testing.web.expectation import Requirement
from swath.testing.web.faults.fault_site import FaultSite, FaultSiteBuilder, Respond, fail_at_first
from swath.testing.web.page import render_html
from swath.testing.web.plan import Plan
from swath.testing.web.scripted_response import (
    FOREVER_SECONDS,
    NOT_FOUND,
    ScriptedResponse,
    Wait,
    close_after,
    redirect,
    reply,
)

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

# Other ways to write RULES.
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
# Responses that allow everything, and responses that allow nothing.
ALLOWING: dict[str, ScriptedResponse] = {
    "404": NOT_FOUND,
    "403": reply(403, SHUT_ALL.encode(), content_type="text/plain"),
    "401": reply(401, b"", content_type="text/plain"),
    "410": reply(410, SHUT_ALL.encode(), content_type="text/plain"),
    "empty": reply(200, b"", content_type="text/plain"),
    "html": reply(200, render_html("robots.txt", ["/"], in_body="<pre>\nDisallow: /\n</pre>\n")),
    "no-group": reply(200, b"Disallow: /\n", content_type="text/plain"),
}
FORBIDDING: dict[str, ScriptedResponse] = {
    "500": reply(500, b"User-agent: *\nAllow: /\n", content_type="text/plain"),
    "503": reply(503, b"", content_type="text/plain"),
    "closed": close_after(),
    "cut": close_after(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 900\r\n\r\nUser-agent: *\nAllow: /\n"
    ),
    "timeout": close_after(Wait(FOREVER_SECONDS)),
    "all": reply(200, SHUT_ALL.encode(), content_type="text/plain"),
}


def build_spelling(name: str) -> Callable[[Plan], Iterator[FaultSite]]:
    return _build_host(f"robots-{name}", _reply_text(SPELLINGS[name]))


def build_allowing(name: str) -> Callable[[Plan], Iterator[FaultSite]]:
    """Build a host that allows everything, including /shut/1."""
    return _build_host(f"robots-{name}", ALLOWING[name], shut=Requirement.MUST)


def build_forbidding(name: str) -> Callable[[Plan], Iterator[FaultSite]]:
    """Build a host that allows nothing, not even the front page."""
    return _build_host(f"robots-{name}", FORBIDDING[name], front=Requirement.NEVER, opened=Requirement.NEVER)


def build_some_rules(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with the rules in SOME."""
    builder = FaultSiteBuilder(plan, "robots-some")
    builder.robots(_reply_text(SOME.encode()))
    for target in SOME_OPEN:
        builder.must(target)
    for target in SOME_SHUT:
        builder.never(target)
    yield builder.build()


def build_agents(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with two groups for swath, which count as one, and groups with similar names."""
    builder = FaultSiteBuilder(plan, "robots-agents")
    builder.robots(_reply_text(AGENTS.encode()))
    builder.must("/open/1")
    builder.must("/star/1")
    builder.never("/ours/1")
    builder.never("/ours-too/1")
    yield builder.build()


def build_huge(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with a rule just before 500 KiB, which applies, and one after 600 KiB, which may be ignored."""
    builder = FaultSiteBuilder(plan, "robots-huge")
    filler = "# nothing to see in this line of sixty-four characters or so ##\n"
    before = RULES + filler * (499 * KIBIBYTE // len(filler)) + "Disallow: /late/\n"
    builder.robots(_reply_text((before + filler * (101 * KIBIBYTE // len(filler)) + "Disallow: /too-late/\n").encode()))
    builder.must("/open/1")
    builder.never("/shut/1")
    builder.never("/late/1")
    builder.may("/too-late/1")
    yield builder.build()


def build_delay(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with a Crawl-delay of twice `slow_seconds`; `find_too_close` checks it."""
    builder = FaultSiteBuilder(plan, "robots-delay")
    builder.robots(_reply_text(f"User-agent: *\nCrawl-delay: {plan.slow_seconds * 2:g}\nDisallow: /shut/\n".encode()))
    for number in range(4):
        builder.must(f"/open/{number}")
    builder.never("/shut/1")
    yield builder.build()


def build_redirect_chain(hops: int) -> Callable[[Plan], Iterator[FaultSite]]:
    """Build a host with robots.txt behind `hops` redirects. A crawl follows five; after that it may ignore it."""

    def build(plan: Plan) -> Iterator[FaultSite]:
        builder = FaultSiteBuilder(plan, f"robots-redirect-{hops}")
        builder.robots(redirect(301, f"/robots-{hops - 1}.txt"))
        for left in range(hops - 1, 0, -1):
            builder.may(f"/robots-{left}.txt", redirect(302, f"/robots-{left - 1}.txt"), linked=False)
        builder.may("/robots-0.txt", _reply_text(RULES.encode()), linked=False)
        builder.must("/open/1")
        if hops <= 5:
            builder.never("/shut/1")
        else:
            builder.may("/shut/1")
        yield builder.build()

    return build


def build_redirect_to_other_host(plan: Plan) -> Iterator[FaultSite]:
    """Build the host whose robots.txt redirects to another host. The rules apply to the first host."""
    keeper = FaultSiteBuilder(plan, "robots-redirect-away", "robots-keeper.demo.test")
    keeper.may("/for-others.txt", _reply_text(RULES.encode()), linked=False)
    builder = FaultSiteBuilder(plan, "robots-redirect-away")
    builder.robots(redirect(302, keeper.url("/for-others.txt")))
    builder.must("/open/1")
    builder.never("/shut/1")
    yield builder.build()
    yield keeper.build(linked_from_hub=False, front=Requirement.NEVER)


def build_redirect_loop(plan: Plan) -> Iterator[FaultSite]:
    """Build the host whose robots.txt redirects to itself. A crawler may treat that as missing or as failing."""
    return _build_host(
        "robots-loop", redirect(302, "/robots.txt"), front=Requirement.MAY, opened=Requirement.MAY, shut=Requirement.MAY
    )(plan)


def build_failing_at_first(plan: Plan) -> Iterator[FaultSite]:
    """Build the host whose robots.txt fails twice with 500. A crawl that retries soon gets all pages except /shut."""
    response = fail_at_first(2, reply(500, b"", content_type="text/plain"), _reply_text(RULES.encode()))
    return _build_host("robots-500-at-first", response, front=Requirement.MAY, opened=Requirement.MAY)(plan)


def _build_host(
    kind: str,
    response: ScriptedResponse | Respond,
    *,
    front: Requirement = Requirement.MUST,
    opened: Requirement = Requirement.MUST,
    shut: Requirement = Requirement.NEVER,
) -> Callable[[Plan], Iterator[FaultSite]]:
    def build(plan: Plan) -> Iterator[FaultSite]:
        builder = FaultSiteBuilder(plan, kind)
        builder.robots(response)
        for name, requirement in (("open", opened), ("shut", shut)):
            for number in range(2):
                _place(builder, f"/{name}/{number}", requirement)
        yield builder.build(front=front)

    return build


def _place(builder: FaultSiteBuilder, target: str, requirement: Requirement) -> None:
    if requirement is Requirement.MUST:
        builder.must(target)
    elif requirement is Requirement.MAY:
        builder.may(target)
    else:
        builder.never(target)


def _reply_text(body: bytes) -> ScriptedResponse:
    return reply(200, body, content_type="text/plain; charset=utf-8")
