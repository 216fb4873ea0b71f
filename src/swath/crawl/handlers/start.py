"""`@crawler.start`: a function of the user's that yields seeds, and what it may yield."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from swath import UsageError
from swath.crawl.handlers.collector import Collector
from swath.crawl.handlers.errors import InvalidYield
from swath.crawl.handlers.page import Page
from swath.crawl.handlers.registration import Handler, is_async
from swath.crawl.handlers.requests import Request
from swath.crawl.seed_list import BadSeed, parse_seed
from swath.crawl.urls.normalise import has_scheme

if TYPE_CHECKING:
    from swath.crawl.handlers.crawler import Crawler

START_KEY: Final = "crawler.start"  # of the item that runs the function, and the name of its lane
MAX_SEEDS: Final = 100_000  # of one crawl: they are committed in one transaction
MAX_BYTES: Final = 50_000_000  # of these seeds and their payloads


@dataclass(frozen=True, slots=True)
class StartHandler(Handler):
    """The function that yields seeds, called like the handler of a page."""

    original: Callable[..., Any] | None = None


def make_start(function: Callable[..., Any]) -> StartHandler:
    """Check a function and return it as a handler. Raise UsageError if it cannot yield seeds."""
    name = getattr(function, "__name__", f"{function!r:.100}")
    if isinstance(function, type) or not inspect.isroutine(function):
        raise UsageError(f"{name} cannot yield seeds: write @crawler.start above a function")
    signature = inspect.signature(function)
    for takes_state in (False, True):
        try:
            signature.bind(*[None] * takes_state)
        except TypeError:
            continue
        return StartHandler(name, partial(_call, function, takes_state), is_async(function), original=function)
    raise UsageError(f"{name}{signature}: the start of a crawl takes nothing, or what the lifespan yields")


def _call(function: Callable[..., Any], takes_state: bool, page: Page) -> Any:
    return function(page.state) if takes_state else function()


def make_start_page() -> Page:
    """Return a page that stands for the start, so that the function is called like a handler."""
    return Page.from_html("", url="https://crawler.start.invalid/")


class SeedCollector(Collector):
    """What the start of a crawl has yielded."""

    def __init__(self, page: Page, handler: Handler, crawler: "Crawler") -> None:
        super().__init__(page, handler, find_name=crawler.find_name, classes={}, limit=MAX_BYTES, purpose="the start")
        self.bare: set[str] = set()  # the URLs of seeds without a scheme

    def add(self, value: object) -> None:
        """Check and add one seed. Raise InvalidYield if it is not a URL or a Request."""
        if isinstance(value, str):
            value = Request(self._parse(value))
        if not isinstance(value, Request):
            raise InvalidYield(
                f"the start of the crawl yielded {value!r:.80} of type {type(value).__name__}: yield URLs or Requests"
            )
        if not has_scheme(f"{value.url}"):
            raise InvalidYield(f"Request({value.url!r:.80}): the URL of a seed begins with https:// or http://")
        super().add(value)
        if len(self.requests) > MAX_SEEDS:
            raise InvalidYield(
                f"the start of the crawl yielded more than {MAX_SEEDS:,} seeds: write them to a file and give it with "
                "--seeds, which has no limit"
            )

    def _parse(self, text: str) -> str:
        try:
            url, is_bare = parse_seed(text)
        except BadSeed as error:
            raise InvalidYield(f"{text!r:.200} {error}") from None
        if is_bare:
            self.bare.add(url)
        return url
