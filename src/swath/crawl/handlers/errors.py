"""The errors that handlers may see."""

from swath import SwathError, UsageError


class PageTooComplex(SwathError):
    """A page is too large or nested too deep for selectors, whose tree could take minutes or gigabytes."""


class NoMatch(SwathError):
    """A selector matches nothing on this page, and the handler asked for a match with `must_text` or the like."""


class InvalidSelector(UsageError):
    """A selector is not valid CSS."""


class InvalidYield(SwathError):
    """A handler yielded something that is not an item, a `Follow` or a `Request`, or that cannot be stored."""

    yielded_at: tuple[str, int, str] | None = None
    """The file, line and function of the `yield`, which is not in the traceback."""


class PageRetry(SwathError):
    """Raised by `page.retry()`: the handler asks for another fetch. Do not catch it."""

    def __init__(self, after: float, reason: str) -> None:
        super().__init__(f"fetch the page again in {after:g} s: {reason}")
        self.after = after
        self.reason = reason


class LifespanFailed(UsageError):
    """`Crawler(lifespan=…)` failed, so handlers lack what it opens."""


class SinkFailed(UsageError):
    """`Crawler(sink=…)` raised an exception that is not about a single item. The run has ended."""


class HandlerTimeout(SwathError):
    """A handler took longer than `Crawler(handler_timeout=…)`."""
