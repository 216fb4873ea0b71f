"""Crawler: the handlers of a crawl, with the URLs that it starts from and its settings."""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeVar

from swath import UsageError
from swath.crawl.handlers.arguments import check_limit, check_seeds, convert_settings
from swath.crawl.handlers.collector import Collector
from swath.crawl.handlers.errors import InvalidYield
from swath.crawl.handlers.hooks import Link, LinkHook, RequestHook
from swath.crawl.handlers.items import ItemLike, ItemRecord
from swath.crawl.handlers.lifespan import LifespanFunction, bind_lifespan
from swath.crawl.handlers.page import Page
from swath.crawl.handlers.pipeline import Pipeline, make_pipeline
from swath.crawl.handlers.registration import Handler, make_handler
from swath.crawl.handlers.requests import Follow, Request, Target
from swath.crawl.handlers.sink import SinkFunction, check_sink
from swath.crawl.handlers.start import StartHandler, make_start
from swath.crawl.http.outgoing import OutgoingRequest

HANDLER_SECONDS: Final = 60.0
PAGE_MEMORY: Final = 256_000_000
START_SECONDS: Final = 600.0

Yielded = ItemLike | Follow | Request
Returned = AsyncIterator[Yielded] | Iterable[Yielded] | None | Awaitable[Iterable[Yielded] | None]
HandlerFunction = TypeVar("HandlerFunction", bound=Callable[[Page], Returned])
SeedLike = str | Request
Started = AsyncIterator[SeedLike] | Iterable[SeedLike] | Awaitable[Iterable[SeedLike]]
StartFunction = TypeVar("StartFunction", bound=Callable[..., Started])
PipelineFunction = TypeVar("PipelineFunction", bound=Callable[..., ItemLike | None])
RequestHookFunction = TypeVar("RequestHookFunction", bound=Callable[[OutgoingRequest], OutgoingRequest])
LinkHookFunction = TypeVar("LinkHookFunction", bound=Callable[[Link], Link | None])


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a handler yields for a page."""

    handler: str | None
    """The name of the handler; None if the crawler has none for the page."""
    items: list[Any]
    """As they were yielded, and as pipelines have changed them."""
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
        lifespan: LifespanFunction | None = None,
        start_timeout: float = START_SECONDS,
        sink: SinkFunction | None = None,
        **settings: Any,
    ) -> None:
        """`settings` are those of `swath crawl`: `delay=1.0` is `--delay 1s`. Flags of the command replace them.

        `handler_timeout` is the maximum time of one call of a handler. No page is fetched while the pages in handlers
        have more than `page_memory` bytes. `aliases` has the present name of handlers that were renamed.

        `lifespan` is an async context manager function. Each process opens it before its first page, and closes it
        after its last one. Handlers find what it yields in `page.state`. `start_timeout` is the maximum time of the
        function with `@crawler.start`.

        `sink` is a function of a connection and items. It writes the items to a table of the database that holds the
        frontier, in the transaction that settles their pages. The items are then not written to files.
        """
        check_limit("handler_timeout", handler_timeout)
        check_limit("start_timeout", start_timeout)
        check_limit("page_memory", page_memory)
        check_seeds(seeds)
        self.seeds: Final = seeds
        self._settings = convert_settings(settings, call="Crawler")
        self.handler_timeout: Final = handler_timeout
        self.page_memory: Final = page_memory
        self.aliases: Final = dict(aliases or {})
        if sink is not None:
            check_sink(sink)
        self.sink: Final = sink
        self.start_timeout: Final = start_timeout
        self.start_handler: StartHandler | None = None
        self.lifespan: Final = lifespan
        self.open_lifespan: Final = None if lifespan is None else bind_lifespan(lifespan, self)
        self.pipelines: Final[list[Pipeline]] = []
        self.handlers: Final[dict[str, Handler]] = {}
        self.classes: Final[dict[str, type]] = {}  # the class of each kind of items so far
        self._patterns: list[tuple[re.Pattern[str], Handler]] = []
        self._default: Handler | None = None
        self._error: Handler | None = None
        self.on_request: RequestHook | None = None
        self.on_link: LinkHook | None = None

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
        self, misplaced: None = None, /, *, links: Literal["scope"] | None = None, version: int | str = 1
    ) -> Callable[[HandlerFunction], HandlerFunction]:
        """Register the handler of pages that no pattern matches."""
        if misplaced is not None:
            raise UsageError("@crawler.default without parentheses: write @crawler.default()")

        def register(function: HandlerFunction) -> HandlerFunction:
            if self._default is not None:
                raise UsageError(f"the crawler has two default handlers: {self._default.name} and {function.__name__}")
            self._default = self._register(function, links, version)
            return function

        return register

    def error(
        self, misplaced: None = None, /, *, version: int | str = 1
    ) -> Callable[[HandlerFunction], HandlerFunction]:
        """Register the handler of pages with another status than 200 to 299, except redirects."""
        if misplaced is not None:
            raise UsageError("@crawler.error without parentheses: write @crawler.error()")

        def register(function: HandlerFunction) -> HandlerFunction:
            if self._error is not None:
                raise UsageError(f"the crawler has two error handlers: {self._error.name} and {function.__name__}")
            self._error = self._register(function, None, version)
            return function

        return register

    def start(self, function: StartFunction) -> StartFunction:
        """Register a function that yields seeds: URLs, host names or Requests, in addition to those that are given.

        It runs once in a crawl, in one process of the fleet, and its seeds are committed when it returns. They extend
        the scope, except for a `Request(any_host=True)`. The function takes nothing, or what the lifespan yields.
        """
        if self.start_handler is not None:
            raise UsageError(f"the crawler has two starts: {self.start_handler.name} and {function.__name__}")
        self.start_handler = make_start(function)
        return function

    def pipeline(self, function: PipelineFunction) -> PipelineFunction:
        """Register a function that gets every item, and returns it, another one, or None to drop it.

        Pipelines are applied in the order of their registration. A pipeline is a plain function of the item, or of
        the item and its page. It is called where the handler runs, and if it raises, the handler has failed.
        """
        self.pipelines.append(make_pipeline(function))
        return function

    def request_hook(self, function: RequestHookFunction) -> RequestHookFunction:
        """Register a function that is called just before each request, also for robots.txt.

        It returns the request, perhaps with other headers or another proxy. It runs in the event loop, so it must not
        block. If it raises, the request is not sent, and the page is dead.
        """
        if self.on_request is not None:
            raise UsageError(f"the crawler has two request hooks: {self.on_request.name} and {function.__name__}")
        self.on_request = RequestHook(function)
        return function

    def link_hook(self, function: LinkHookFunction) -> LinkHookFunction:
        """Register a function that is called for each link that would become a page of the crawl.

        It returns the link, perhaps with another priority, or None to drop it. It is not called for seeds, redirects
        and sitemaps, and should be a pure function. If it raises, the page with the link has failed.
        """
        if self.on_link is not None:
            raise UsageError(f"the crawler has two link hooks: {self.on_link.name} and {function.__name__}")
        self.on_link = LinkHook(function)
        return function

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

    def list_functions(self) -> Iterator[Callable[..., Any]]:
        """Yield the functions that decide what the crawl does."""
        yield from (handler.function for handler in self.handlers.values())
        yield from (pipeline.function for pipeline in self.pipelines)
        if self.lifespan is not None:
            yield self.lifespan
        yield from (hook.function for hook in (self.on_request, self.on_link) if hook is not None)
        if self.sink is not None:
            yield self.sink
        if self.start_handler is not None and self.start_handler.original is not None:
            yield self.start_handler.original

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

    def check(self, page: Page, *, to: Target = None, state: Any = None) -> CheckResult:
        """Run the handler of a page and return what it yields, without a network: for tests.

        Everything is checked as in a crawl. Errors of the handler are raised. `state` takes the place of what the
        lifespan yields, which is not opened.
        """
        handler = self.choose(page.url, status=page.status, to=self.find_name(to))
        if handler is None:
            return CheckResult(None, [], [])
        page.state = state
        collector = Collector(
            page,
            handler,
            find_name=self.find_name,
            classes=self.classes,
            pipelines=self.pipelines,
            keep_values=True,
        )
        try:
            if handler.is_async:
                _run_async(collector, handler.function(page))
            else:
                collector.collect(handler.function(page))
        except Exception as error:
            if self.lifespan is not None and state is None:
                error.add_note(
                    "check() does not open the lifespan, so page.state is None: pass what it yields, with check(page, "
                    "state=…)"
                )
            raise
        return CheckResult(handler.name, collector.values, collector.requests)

    def stream(self, *seeds: str, **settings: Any) -> AsyncGenerator[ItemRecord, None]:
        """Run the crawl in the caller's event loop, and yield each item after its page is committed.

        `settings` replace those of the crawler; `seeds` replace its URLs. If the caller takes items slowly, no page is
        fetched meanwhile. Leaving the loop stops the crawl; it continues when `stream` is called again.
        """
        from swath.crawl.stream import stream_items  # it imports this module

        check_seeds(seeds)
        return stream_items(self, seeds or self.seeds, convert_settings(settings, call="crawler.stream"))

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
        is_in_loop = False  # not run here: an error of the handler would have this one as its context
    else:
        is_in_loop = True
    if not is_in_loop:
        asyncio.run(collector.collect_async(returned))
        return
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, collector.collect_async(returned)).result()


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
