"""Follow and Request: what a handler yields to have more pages fetched."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Target = Callable[..., Any] | str | None  # a handler or its name; None: chosen by the URL


class ResolvedLinks(tuple[str, ...]):
    """URLs that are absolute and normalised, so that they need not be resolved again."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Follow:
    """Links to follow. `Page.follow` makes one from a selector. Scope, depth, robots.txt and traps hold for each."""

    urls: Sequence[str]
    """May be relative to the page."""
    to: Target = None
    """The handler of these pages, or its name. Without it, their URLs decide."""
    priority: int | None = None
    """From 0 to 7; the pages of a host with a higher number come first. Without it, `--priority-by` decides."""
    payload: Any = None
    """Any JSON value; the handler of the page finds it in `page.payload`."""

    def __post_init__(self) -> None:
        if isinstance(self.urls, str):  # a string is a sequence of its characters
            object.__setattr__(self, "urls", (self.urls,))


@dataclass(frozen=True, slots=True)
class Request:
    """One page to fetch. Unlike the pages of a `Follow`, it may be out of scope."""

    url: str
    """May be relative to the page."""
    to: Target = None
    """The handler of the page, or its name. Without it, its URL decides."""
    priority: int | None = None
    """From 0 to 7; the pages of a host with a higher number come first. Without it, `--priority-by` decides."""
    payload: Any = None
    """Any JSON value; the handler of the page finds it in `page.payload`."""
    any_host: bool = False
    """Fetch it although `--scope` excludes it. Everything else that holds for links holds for it, too."""
