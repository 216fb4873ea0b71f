"""Every status code, and hosts that send Retry-After."""

from collections.abc import Iterator
from email.utils import formatdate
from math import ceil

from swath.testing.web.faults.fault_site import FaultSite, FaultSiteBuilder, Respond, fail_at_first
from swath.testing.web.page import reply_html
from swath.testing.web.plan import Plan
from swath.testing.web.scripted_response import Request, ScriptedResponse, redirect, reply

FINAL = (203, 204, 400, 401, 402, 403, 404, 405, 406, 409, 410, 414, 418, 422, 451)
REDIRECTS = (301, 302, 303, 307, 308)
PASSING = (408, 425, 500, 501, 502, 503, 504, 520, 599)


def build_statuses(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with final statuses: /204, /301, /404, …"""
    builder = FaultSiteBuilder(plan, "statuses")
    for status in FINAL:
        builder.must(f"/{status}", reply(status, f"<p>This is {status}.</p>".encode()), status=status)
    for status in REDIRECTS:
        builder.must(f"/{status}", redirect(status, f"/{status}/end"), status=status)
        builder.must(f"/{status}/end", linked=False)
    # The client requested neither a range nor a condition, so these responses are always wrong.
    builder.attempt("/206", reply(206, b"<p>part", headers=[("Content-Range", "bytes 0-6/100")]))
    builder.attempt("/304", reply(304))
    yield builder.build()


def build_errors(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with errors that are worth a retry but never recover: /500, /599, …"""
    builder = FaultSiteBuilder(plan, "errors")
    for status in PASSING:
        builder.attempt(f"/{status}", reply(status, f"<p>This is {status}.</p>".encode()))
    builder.attempt("/429", reply(429, b"<p>Slower.</p>"))
    yield builder.build()


def build_retry_after(plan: Plan) -> Iterator[FaultSite]:
    """Build hosts that answer 429 and 503 with Retry-After, in seconds or as a date, and recover after it.

    Each has its own host, such as retry-after-429-seconds, because one such response blocks a lane.
    `ScriptedResponse.retry_after` is the requested pause, and `find_too_early` checks that the crawler kept to it.
    """
    seconds = ceil(plan.slow_seconds)
    for status in (429, 503):
        for form in ("seconds", "date"):
            builder = FaultSiteBuilder(plan, "retry-after", f"retry-after-{status}-{form}.demo.test")
            builder.must(
                "/later", fail_at_first(1, _ask_to_retry_later(status, seconds, form), reply_html(form, [])), retries=1
            )
            yield builder.build()
    builder = FaultSiteBuilder(plan, "retry-after", "retry-after-odd.demo.test")
    for name, value in {"garbage": "soon", "negative": "-5", "century": "3155760000"}.items():
        builder.attempt(f"/{name}", reply(503, headers=[("Retry-After", value)]))
    yield builder.build()


def _ask_to_retry_later(status: int, seconds: int, form: str) -> Respond:
    """Return a response with Retry-After. A date is rounded up to whole seconds of the server's clock."""

    def respond(request: Request) -> ScriptedResponse:
        if form == "seconds":
            value, wait = str(seconds), float(seconds)
        else:
            due = ceil(request.now) + seconds
            value, wait = formatdate(due, usegmt=True), due - request.now
        return reply(status, b"<p>Later.</p>", headers=[("Retry-After", value)], retry_after=wait)

    return respond
