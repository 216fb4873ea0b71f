"""Crawler: the handlers of a crawl, with the URLs that it starts from and its settings."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeVar

from swath import InvalidSetting, UsageError
from swath.crawl.handlers.collector import Collector
from swath.crawl.handlers.errors import InvalidYield
from swath.crawl.handlers.items import ItemLike
from swath.crawl.handlers.page import Page
from swath.crawl.handlers.registration import Handler, make_handler
from swath.crawl.handlers.requests import Follow, Request, Target
from swath.crawl.settings import SETTINGS, CrawlSettings

HANDLER_SECONDS: Final = 60.0
PAGE_MEMORY: Final = 256_000_000

Yielded = ItemLike | Follow | Request
Returned = AsyncIterator[Yielded] | Iterable[Yielded] | None | Awaitable[Iterable[Yielded] | None]
HandlerFunction = TypeVar("HandlerFunction", bound=Callable[[Page], Returned])

_OF_A_RUN = ("run", "items")  # settings that a crawler cannot have


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a handler yields for a page."""

    handler: str | None
    """The name of the handler; None if the crawler has none for the page."""
    items: list[Any]
    """As they were yielded."""
    requests: list[Request]
    """Also those of each `Follow`, with absolute URLs and the names of handlers. The scope is not applied."""


class Crawler:
    """A crawl with handlers: functions of a page that yield items, and links to follow.

    A page has one handler: the `to=` of its link, or else the first handler with a pattern that matches its URL, or
    else the default. Handlers get pages with a status of 200 to 299; the error handler gets the others.
    """

    def __init__(
        self,
        *seeds: str,
        handler_timeout: float = HANDLER_SECONDS,
        page_memory: int = PAGE_MEMORY,
        aliases: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        """`settings` are those of `swath crawl`: `delay=1.0` is `--delay 1s`. Flags of the command replace them.

        `handler_timeout` is the maximum time of one call of a handler. No page is fetched while the pages in handlers
        have more than `page_memory` bytes. `aliases` has the present name of handlers that were renamed.
        """
        if handler_timeout <= 0:
            raise InvalidSetting(f"handler_timeout={handler_timeout}: must be above 0")
        if page_memory <= 0:
            raise InvalidSetting(f"page_memory={page_memory}: must be above 0")
        _check_settings(settings)
        self.seeds: Final = seeds
        self._settings = {name: tuple(one) if isinstance(one, list) else one for name, one in settings.items()}
        self.handler_timeout: Final = handler_timeout
        self.page_memory: Final = page_memory
        self.aliases: Final = dict(aliases or {})
        self.handlers: Final[dict[str, Handler]] = {}
        self.classes: Final[dict[str, type]] = {}  # the class of each kind of items so far
        self._patterns: list[tuple[re.Pattern[str], Handler]] = []
        self._default: Handler | None = None
        self._error: Handler | None = None

    # registration

    def handler(
        self, pattern: str, *, links: Literal["scope"] | None = None, version: int | str = 1
    ) -> Callable[[HandlerFunction], HandlerFunction]:
        """Register a handler for pages whose URL contains a match of a regular expression.

        With `links="scope"`, the crawl also follows the links that it would follow without a handler. `version` is
        written with every item.
        """
        if not isinstance(pattern, str):
            raise UsageError("@crawler.handler takes a pattern: write @crawler.handler(r'/catalogue/')")
        try:
            compiled = re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise UsageError(f"the pattern {pattern!r} is not a regular expression: {error}") from None

        def register(function: HandlerFunction) -> HandlerFunction:
            self._patterns.append((compiled, self._register(function, links, version)))
            return function

        return register

    def default(
        self, *, links: Literal["scope"] | None = None, version: int | str = 1
    ) -> Callable[[HandlerFunction], HandlerFunction]:
        """Register the handler of pages that no pattern matches."""

        def register(function: HandlerFunction) -> HandlerFunction:
            if self._default is not None:
                raise UsageError(f"the crawler has two default handlers: {self._default.name} and {function.__name__}")
            self._default = self._register(function, links, version)
            return function

        return register

    def error(self, *, version: int | str = 1) -> Callable[[HandlerFunction], HandlerFunction]:
        """Register the handler of pages with another status than 200 to 299, except redirects."""

        def register(function: HandlerFunction) -> HandlerFunction:
            if self._error is not None:
                raise UsageError(f"the crawler has two error handlers: {self._error.name} and {function.__name__}")
            self._error = self._register(function, None, version)
            return function

        return register

    def _register(self, function: Callable[..., Any], links: str | None, version: int | str) -> Handler:
        made = make_handler(function, links=links, version=version)
        if (known := self.handlers.get(made.name)) is not None and known.function is not function:
            raise UsageError(f"the crawler has two handlers with the name {made.name}: rename one")
        self.handlers[made.name] = made
        return made

    # use

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the crawl, as `swath crawl` has them.

        Sitemaps list links that no handler has yielded, so they are read only if some handler follows the scope.
        """
        return self._settings if self.follows_scope else {"sitemaps": False, **self._settings}

    @property
    def follows_scope(self) -> bool:
        """Whether some handler has `links="scope"`."""
        return any(handler.follows_scope for handler in self.handlers.values())

    def choose(self, url: str, *, status: int = 200, to: str | None = None) -> Handler | None:
        """Return the handler of a page; None if it has none."""
        if not 200 <= status < 300:
            return self._error
        if to is not None and (named := self.handlers.get(self.aliases.get(to, to))) is not None:
            return named
        return next((handler for pattern, handler in self._patterns if pattern.search(url)), self._default)

    def find_name(self, target: Target) -> str | None:
        """Return the name of the handler that `to=` refers to. Raise InvalidYield if there is none."""
        if target is None:
            return None
        if isinstance(target, str):
            if target in self.handlers:
                return target
            near = get_close_matches(target, self.handlers, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise InvalidYield(f"to={target!r}: the crawler has no handler with this name{meant}")
        for handler in self.handlers.values():
            if handler.function is target:
                return handler.name
        raise InvalidYield(
            f"to={getattr(target, '__name__', target)!s:.80}: this function is not a handler of the crawler"
        )

    def check(self, page: Page, *, to: Target = None) -> CheckResult:
        """Run the handler of a page and return what it yields, without a network: for tests.

        Everything is checked as in a crawl. Errors of the handler are raised.
        """
        handler = self.choose(page.url, status=page.status, to=self.find_name(to))
        if handler is None:
            return CheckResult(None, [], [])
        collector = Collector(page, handler, find_name=self.find_name, classes=self.classes, keep_values=True)
        if handler.is_async:
            _run_async(collector, handler.function(page))
        else:
            collector.collect(handler.function(page))
        return CheckResult(handler.name, collector.values, collector.requests)

    def run(self, arguments: Sequence[str] | None = None) -> int:
        """Run `swath crawl` with this crawler, and return its exit code.

        `arguments` are more options of the command; the default is those of the script.
        """
        from swath.crawl.handlers.script import run_script  # it imports this module

        return run_script(self, sys.argv[1:] if arguments is None else arguments)


def _run_async(collector: Collector, returned: object) -> None:
    """Run an async handler to its end, also for a caller that is in an event loop itself."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(collector.collect_async(returned))
    else:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, collector.collect_async(returned)).result()


def _check_settings(settings: Mapping[str, Any]) -> None:
    known = {one.name for one in fields(CrawlSettings)} - set(_OF_A_RUN)
    for name in settings:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            meant = f"did you mean {near[0]}?" if near else f"use one of {', '.join(sorted(known & SETTINGS.keys()))}"
            raise InvalidSetting(f"Crawler({name}=…): there is no such setting; {meant}")
    CrawlSettings(**settings)


def make_crawler(loaded: object, *, name: str) -> Crawler:
    """Return what `--run` names as a crawler: a bare function handles every page and follows the scope."""
    if isinstance(loaded, Crawler):
        if not loaded.handlers:
            raise UsageError(
                f"{name}: the crawler has no handler; register one with @{name.rpartition(':')[2]}.default()"
            )
        return loaded
    if not callable(loaded) or isinstance(loaded, type):
        raise UsageError(f"{name} is of type {type(loaded).__name__}: name a Crawler or a function")
    crawler = Crawler()
    crawler.default(links="scope")(loaded)
    return crawler
