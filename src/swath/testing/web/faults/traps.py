"""Pages without end. Each trap has a door that a crawl must find; what lies behind it is open."""

import re
from collections.abc import Callable, Iterator

from swath.testing.web.answer import Answer, Ask
from swath.testing.web.faults.fault_page import Sketch, Spots
from swath.testing.web.page import plain_page
from swath.testing.web.plan import Plan
from swath.testing.web.seeded_random import Chance

FIRST_YEAR = 2000
MONTHS = 12
TODAY = 24 * MONTHS + 5  # months since the first year

_CALENDAR = re.compile(r"/calendar\?year=(\d{4,6})&month=(\d{1,2})$")
_DAYS = re.compile(r"/archive/(\d{4,6})/(\d\d)/$")
_SESSION = re.compile(r"/shop/(cart|offers|account)(?:\?sid=([0-9a-f]{8})[0-9a-f]{8})?$")
_SEGMENTS = re.compile(r"/maze(?:/(?:left|right))+/$")
_FILTERS = re.compile(r"/filter\?color=\w+(?:&color=\w+)*$")
_COUNTER = re.compile(r"/counter/(\d{1,9})$")

Trap = Callable[[Plan, Ask], Answer | None]


def calendar(plan: Plan, ask: Ask) -> Answer | None:
    """A month links to the next and the one before, in both of two spellings."""
    found = _CALENDAR.match(ask.target) or _DAYS.match(ask.target)
    if found is None or not 1 <= int(found[2]) <= MONTHS:
        return None
    bounds = range(max(0, TODAY - plan.trap_depth), TODAY + plan.trap_depth + 1)
    month = (int(found[1]) - FIRST_YEAR) * MONTHS + int(found[2]) - 1
    if month not in bounds:
        return None
    dates = [(FIRST_YEAR + each // MONTHS, each % MONTHS + 1) for each in (month - 1, month + 1) if each in bounds]
    if ask.target.startswith("/archive"):
        return plain_page(f"Archive {month}", [f"/archive/{year}/{number:02d}/" for year, number in dates])
    return plain_page(f"Calendar {month}", [f"/calendar?year={year}&month={number}" for year, number in dates])


def segments(plan: Plan, ask: Ask) -> Answer | None:
    """A relative link without a slash in front, so that paths repeat themselves."""
    if _SEGMENTS.match(ask.target) is None:
        return None
    steps = ask.target.count("/") - 2
    onwards = ["right/" if ask.target.endswith("left/") else "left/"]
    return plain_page(f"Maze {steps}", onwards if steps < plan.trap_depth else [])


def sessions(plan: Plan, ask: Ask) -> Answer | None:
    """Every page hands out a new session id for the same three pages, also to who comes without one."""
    found = _SESSION.match(ask.target)
    if found is None:
        return None
    step = int(found[2] or "0", 16)
    onwards = f"{step + 1:08x}{Chance(plan.seed, step).bytes(4).hex()}"
    pages = [f"/shop/{page}?sid={onwards}" for page in ("cart", "offers", "account")]
    return plain_page(f"Shop {found[1]} {step}", pages if step < plan.trap_depth else [])


def filters(plan: Plan, ask: Ask) -> Answer | None:
    """A query that grows by a parameter with every click."""
    if _FILTERS.match(ask.target) is None:
        return None
    steps = ask.target.count("=")
    onwards = [f"{ask.target}&color={('red', 'blue')[steps % 2]}"]
    return plain_page(f"Filter {steps}", onwards if steps < plan.trap_depth else [])


def counter(plan: Plan, ask: Ask) -> Answer | None:
    """A next page, always; only a budget or a depth ends it."""
    found = _COUNTER.match(ask.target)
    if found is None or int(found[1]) > plan.trap_depth:
        return None
    onwards = [f"/counter/{int(found[1]) + 1}"]
    return plain_page(f"Counter {found[1]}", onwards if int(found[1]) < plan.trap_depth else [])


DOORS: dict[str, tuple[Trap, tuple[str, ...]]] = {
    "calendar": (calendar, ("/calendar?year=2024&month=6", "/archive/2024/06/")),
    "segments": (segments, ("/maze/left/",)),
    "sessions": (sessions, ("/shop/cart?sid=0000000001234567",)),
    "filters": (filters, ("/filter?color=green",)),
    "counter": (counter, ("/counter/1",)),
}


def trap(kind: str) -> Callable[[Plan], Iterator[Spots]]:
    """The host `trap-<kind>`. A page of its own shows whether the rest of a trapped host is still crawled."""
    endless, doors = DOORS[kind]

    def sites(plan: Plan) -> Iterator[Spots]:
        sketch = Sketch(plan, f"trap-{kind}")
        for number in range(3):
            sketch.must(f"/sane/{number}")
        yield sketch.site(hrefs=doors, beyond=lambda ask: endless(plan, ask))

    return sites
