"""Traps: hosts with unlimited pages. A crawl has to find their entrance and may request the pages behind it."""

import re
from collections.abc import Callable, Iterator

from swath.testing.web.faults.fault_site import FaultSite, FaultSiteBuilder
from swath.testing.web.page import reply_html
from swath.testing.web.plan import Plan
from swath.testing.web.scripted_response import Request, ScriptedResponse
from swath.testing.web.seeded_random import SeededRandom

FIRST_YEAR = 2000
MONTHS = 12
TODAY = 24 * MONTHS + 5  # months since the first year

_CALENDAR = re.compile(r"/calendar\?year=(\d{4,6})&month=(\d{1,2})$")
_DAYS = re.compile(r"/archive/(\d{4,6})/(\d\d)/$")
_SESSION = re.compile(r"/shop/(cart|offers|account)(?:\?sid=([0-9a-f]{8})[0-9a-f]{8})?$")
_SEGMENTS = re.compile(r"/maze(?:/(?:left|right))+/$")
_FILTERS = re.compile(r"/filter\?color=\w+(?:&color=\w+)*$")
_COUNTER = re.compile(r"/counter/(\d{1,9})$")

Trap = Callable[[Plan, Request], ScriptedResponse | None]


def reply_calendar(plan: Plan, request: Request) -> ScriptedResponse | None:
    """Answer with a month that links to the next and the previous one, in one of two URL styles."""
    found = _CALENDAR.match(request.target) or _DAYS.match(request.target)
    if found is None or not 1 <= int(found[2]) <= MONTHS:
        return None
    bounds = range(max(0, TODAY - plan.trap_depth), TODAY + plan.trap_depth + 1)
    month = (int(found[1]) - FIRST_YEAR) * MONTHS + int(found[2]) - 1
    if month not in bounds:
        return None
    dates = [(FIRST_YEAR + each // MONTHS, each % MONTHS + 1) for each in (month - 1, month + 1) if each in bounds]
    if request.target.startswith("/archive"):
        return reply_html(f"Archive {month}", [f"/archive/{year}/{number:02d}/" for year, number in dates])
    return reply_html(f"Calendar {month}", [f"/calendar?year={year}&month={number}" for year, number in dates])


def reply_segments(plan: Plan, request: Request) -> ScriptedResponse | None:
    """Answer with a relative link that lengthens the path with every step."""
    if _SEGMENTS.match(request.target) is None:
        return None
    steps = request.target.count("/") - 2
    onwards = ["right/" if request.target.endswith("left/") else "left/"]
    return reply_html(f"Maze {steps}", onwards if steps < plan.trap_depth else [])


def reply_sessions(plan: Plan, request: Request) -> ScriptedResponse | None:
    """Answer with links to the same three pages under a new session id."""
    found = _SESSION.match(request.target)
    if found is None:
        return None
    step = int(found[2] or "0", 16)
    onwards = f"{step + 1:08x}{SeededRandom(plan.seed, step).bytes(4).hex()}"
    pages = [f"/shop/{page}?sid={onwards}" for page in ("cart", "offers", "account")]
    return reply_html(f"Shop {found[1]} {step}", pages if step < plan.trap_depth else [])


def reply_filters(plan: Plan, request: Request) -> ScriptedResponse | None:
    """Answer with a link whose query has one more parameter."""
    if _FILTERS.match(request.target) is None:
        return None
    steps = request.target.count("=")
    onwards = [f"{request.target}&color={('red', 'blue')[steps % 2]}"]
    return reply_html(f"Filter {steps}", onwards if steps < plan.trap_depth else [])


def reply_counter(plan: Plan, request: Request) -> ScriptedResponse | None:
    """Answer with a link to the next page. Only a limit on pages or depth ends the crawl."""
    found = _COUNTER.match(request.target)
    if found is None or int(found[1]) > plan.trap_depth:
        return None
    onwards = [f"/counter/{int(found[1]) + 1}"]
    return reply_html(f"Counter {found[1]}", onwards if int(found[1]) < plan.trap_depth else [])


ENTRANCES: dict[str, tuple[Trap, tuple[str, ...]]] = {
    "calendar": (reply_calendar, ("/calendar?year=2024&month=6", "/archive/2024/06/")),
    "segments": (reply_segments, ("/maze/left/",)),
    "sessions": (reply_sessions, ("/shop/cart?sid=0000000001234567",)),
    "filters": (reply_filters, ("/filter?color=green",)),
    "counter": (reply_counter, ("/counter/1",)),
}


def build_trap(kind: str) -> Callable[[Plan], Iterator[FaultSite]]:
    """Build the host `trap-<kind>`. Its /sane pages show whether the rest of the host is still crawled."""
    endless, entrances = ENTRANCES[kind]

    def build(plan: Plan) -> Iterator[FaultSite]:
        builder = FaultSiteBuilder(plan, f"trap-{kind}")
        for number in range(3):
            builder.must(f"/sane/{number}")
        yield builder.build(hrefs=entrances, endless=lambda request: endless(plan, request))

    return build
