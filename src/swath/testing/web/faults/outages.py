"""Hosts that are down: at first, from some time on, or always."""

from collections.abc import Callable, Iterator

from swath.testing.web.answer import Answer, Ask, closed, reply
from swath.testing.web.expectation import Fate
from swath.testing.web.faults.fault_page import Sketch, Spots
from swath.testing.web.plan import Plan

FAILURES = 2  # requests that fail before a host comes back
LIVES = 6  # requests that a dying host answers

DOWN: dict[str, Answer] = {"503": reply(503, b"<p>Back soon.</p>"), "closed": closed()}


def flaky(how: str) -> Callable[[Plan], Iterator[Spots]]:
    """robots.txt is well, the first two requests to each page fail; whoever tries three times gets everything."""

    def guard(ask: Ask) -> Answer | None:
        return DOWN[how] if ask.target != "/robots.txt" and ask.again < FAILURES else None

    def sites(plan: Plan) -> Iterator[Spots]:
        sketch = Sketch(plan, f"flaky-{how}")
        for number in range(3):
            sketch.must(f"/page/{number}", retries=FAILURES)
        yield sketch.site(guard=guard, front_retries=FAILURES)

    return sites


def down_at_first(how: str) -> Callable[[Plan], Iterator[Spots]]:
    """The first two requests to the host fail, robots.txt first of all; who asks for that again gets everything."""

    def guard(ask: Ask) -> Answer | None:
        return DOWN[how] if ask.nth < FAILURES else None

    def sites(plan: Plan) -> Iterator[Spots]:
        sketch = Sketch(plan, f"down-at-first-{how}")
        for number in range(3):
            sketch.may(f"/page/{number}")
        yield sketch.site(front=Fate.MAY, guard=guard)

    return sites


def dying(plan: Plan) -> Iterator[Spots]:
    """Answers six requests and is gone: the front page is had, which of the others is chance."""
    sketch = Sketch(plan, "dying")
    for number in range(10):
        sketch.may(f"/page/{number}")
    yield sketch.site(guard=lambda ask: closed() if ask.nth >= LIVES else None)


def dead(plan: Plan) -> Iterator[Spots]:
    """Closes every connection. robots.txt cannot be had, so that nothing else may be asked for."""
    sketch = Sketch(plan, "dead")
    sketch.never("/page/1", linked=False)
    yield sketch.site(front=Fate.NEVER, guard=lambda _: closed())
