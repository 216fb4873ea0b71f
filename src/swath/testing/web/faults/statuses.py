"""Every status, and hosts that ask to be left alone for a while."""

from collections.abc import Iterator
from email.utils import formatdate
from math import ceil

from swath.testing.web.answer import Answer, Ask, redirect, reply
from swath.testing.web.faults.fault_page import Respond, Sketch, Spots, at_first
from swath.testing.web.page import plain_page
from swath.testing.web.plan import Plan

FINAL = (203, 204, 400, 401, 402, 403, 404, 405, 406, 409, 410, 414, 418, 422, 451)
REDIRECTS = (301, 302, 303, 307, 308)
PASSING = (408, 425, 500, 501, 502, 503, 504, 520, 599)


def statuses(plan: Plan) -> Iterator[Spots]:
    """Answers that are final: /204, /301, /404, …"""
    sketch = Sketch(plan, "statuses")
    for status in FINAL:
        sketch.must(f"/{status}", reply(status, f"<p>This is {status}.</p>".encode()), status=status)
    for status in REDIRECTS:
        sketch.must(f"/{status}", redirect(status, f"/{status}/end"), status=status)
        sketch.must(f"/{status}/end", linked=False)
    # Nobody asked for a range or with a condition, so there is no right answer to these.
    sketch.attempt("/206", reply(206, b"<p>part", headers=[("Content-Range", "bytes 0-6/100")]))
    sketch.attempt("/304", reply(304))
    yield sketch.site()


def errors(plan: Plan) -> Iterator[Spots]:
    """Errors that a retry might mend and never does: /500, /599, …"""
    sketch = Sketch(plan, "errors")
    for status in PASSING:
        sketch.attempt(f"/{status}", reply(status, f"<p>This is {status}.</p>".encode()))
    sketch.attempt("/429", reply(429, b"<p>Slower.</p>"))
    yield sketch.site()


def retry_after(plan: Plan) -> Iterator[Spots]:
    """429 and 503 that say when to come back, in seconds or as a date; coming back then helps.

    Hosts of their own, since one answer blocks a lane: retry-after-429-seconds and so on. `Answer.retry_after` is
    what was asked for, and `log.too_early` holds the crawler to it.
    """
    seconds = ceil(plan.patience)
    for status in (429, 503):
        for form in ("seconds", "date"):
            sketch = Sketch(plan, "retry-after", f"retry-after-{status}-{form}.demo.test")
            sketch.must("/later", at_first(1, _later(status, seconds, form), plain_page(form, [])), retries=1)
            yield sketch.site()
    sketch = Sketch(plan, "retry-after", "retry-after-odd.demo.test")
    for name, value in {"garbage": "soon", "negative": "-5", "century": "3155760000"}.items():
        sketch.attempt(f"/{name}", reply(503, headers=[("Retry-After", value)]))
    yield sketch.site()


def _later(status: int, seconds: int, form: str) -> Respond:
    """Asks to come back later. A date is of the server's clock, in whole seconds, and never too early."""

    def respond(ask: Ask) -> Answer:
        if form == "seconds":
            value, wait = str(seconds), float(seconds)
        else:
            due = ceil(ask.now) + seconds
            value, wait = formatdate(due, usegmt=True), due - ask.now
        return reply(status, b"<p>Later.</p>", headers=[("Retry-After", value)], retry_after=wait)

    return respond
