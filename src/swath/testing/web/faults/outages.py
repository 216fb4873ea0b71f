"""Hosts that are down: at first, after some requests, or always."""

from collections.abc import Callable, Iterator

from swath.testing.web.expectation import Requirement
from swath.testing.web.faults.fault_site import FaultSite, FaultSiteBuilder
from swath.testing.web.plan import Plan
from swath.testing.web.scripted_response import Request, ScriptedResponse, close_after, reply

FAILURES = 2  # requests that fail before a host comes back
LIVES = 6  # requests that a dying host answers before it stops

DOWN: dict[str, ScriptedResponse] = {"503": reply(503, b"<p>Back soon.</p>"), "closed": close_after()}


def build_flaky(how: str) -> Callable[[Plan], Iterator[FaultSite]]:
    """Build a host where the first two requests for each page fail, but not those for robots.txt."""

    def guard(request: Request) -> ScriptedResponse | None:
        return DOWN[how] if request.target != "/robots.txt" and request.target_requests < FAILURES else None

    def build(plan: Plan) -> Iterator[FaultSite]:
        builder = FaultSiteBuilder(plan, f"flaky-{how}")
        for number in range(3):
            builder.must(f"/page/{number}", retries=FAILURES)
        yield builder.build(guard=guard, front_retries=FAILURES)

    return build


def build_down_at_first(how: str) -> Callable[[Plan], Iterator[FaultSite]]:
    """Build a host where the first two requests fail. A crawl that retries robots.txt gets all pages."""

    def guard(request: Request) -> ScriptedResponse | None:
        return DOWN[how] if request.host_requests < FAILURES else None

    def build(plan: Plan) -> Iterator[FaultSite]:
        builder = FaultSiteBuilder(plan, f"down-at-first-{how}")
        for number in range(3):
            builder.may(f"/page/{number}")
        yield builder.build(front=Requirement.MAY, guard=guard)

    return build


def build_dying(plan: Plan) -> Iterator[FaultSite]:
    """Build the host that answers six requests and then closes every connection."""
    builder = FaultSiteBuilder(plan, "dying")
    for number in range(10):
        builder.may(f"/page/{number}")
    yield builder.build(guard=lambda request: close_after() if request.host_requests >= LIVES else None)


def build_dead(plan: Plan) -> Iterator[FaultSite]:
    """Build the host that closes every connection. Without a robots.txt, a crawl must not request anything else."""
    builder = FaultSiteBuilder(plan, "dead")
    builder.never("/page/1", linked=False)
    yield builder.build(front=Requirement.NEVER, guard=lambda _: close_after())
