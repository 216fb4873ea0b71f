"""Hooks: functions of the user that a crawl calls for each request and for each link."""

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from swath import SwathError, UsageError
from swath.crawl.handlers.failures import describe_error
from swath.crawl.http.outgoing import OutgoingRequest, find_header_mistake
from swath.crawl.priority import TOP_LEVEL
from swath.crawl.settings import PROXIES, is_proxy

log = logging.getLogger("swath.crawl")

REQUEST_HOOK: Final = "request hook"  # begins the reason of a page whose request it could not change
LINK_HOOK: Final = "link hook"


@dataclass(frozen=True, slots=True)
class Link:
    """A link that would become a page of the crawl. A link hook returns it, perhaps with another priority, or None."""

    url: str
    referrer: str
    """The page that has the link."""
    depth: int
    """The number of links from a seed."""
    priority: int
    """From 0 to 7; the pages of a host with a higher number come first."""


class HookFailed(SwathError):
    """A hook raised, or returned what it must not."""

    def __init__(self, kind: str, reason: str, trace: str) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind = kind
        self.reason = reason
        self.trace = trace


class InvalidHookResult(SwathError):
    """A hook returned what it must not."""


class _Hook:
    kind: str

    def __init__(self, function: Callable[..., Any]) -> None:
        name = getattr(function, "__name__", "hook")
        if not inspect.isroutine(function) or _is_async(function):
            raise UsageError(f"{name} cannot be a {self.kind}: it is called for its result, so write a plain function")
        try:
            inspect.signature(function).bind(None)
        except TypeError:
            raise UsageError(
                f"{name}{inspect.signature(function)} cannot be a {self.kind}: it is called with one argument"
            ) from None
        self.function = function
        self.name = name
        self._logged = False

    def fail(self, error: BaseException) -> HookFailed:
        """Return the failure for an error. The first one is logged."""
        reason, trace = describe_error(self.name, error)
        if not self._logged:
            self._logged = True
            log.warning("%s %s; more failures of it are only counted\n%s", self.kind, reason, trace.rstrip())
        return HookFailed(self.kind, reason, trace)


class RequestHook(_Hook):
    """Changes the headers and the proxy of a request just before it is sent."""

    kind = REQUEST_HOOK

    def __call__(self, request: OutgoingRequest) -> OutgoingRequest:
        try:
            changed = self.function(request)
            if changed is not request:
                _check_request(request, changed)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a hook that calls sys.exit() has failed, too
            raise self.fail(error) from error
        return changed  # type: ignore[no-any-return]  # it was checked


class LinkHook(_Hook):
    """Decides whether a link is followed, and with which priority."""

    kind = LINK_HOOK

    def __call__(self, link: Link) -> int | None:
        """Return the priority of a link; None if it is not followed."""
        try:
            changed = self.function(link)
            if changed is not link:
                _check_link(link, changed)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a hook that calls sys.exit() has failed, too
            raise self.fail(error) from error
        return None if changed is None else changed.priority


def _is_async(function: Callable[..., Any]) -> bool:
    return (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )


def _check_request(request: OutgoingRequest, changed: object) -> None:
    if not isinstance(changed, OutgoingRequest):
        raise InvalidHookResult(
            f"it returned {changed!r:.80} of type {type(changed).__name__}: return the request, or "
            "dataclasses.replace(request, headers=…)"
        )
    for name in ("url", "method", "body"):
        if getattr(changed, name) != getattr(request, name):
            raise InvalidHookResult(f"it changed the {name} of the request: it may change headers and proxy only")
    if (mistake := find_header_mistake(changed.headers)) is not None:
        raise InvalidHookResult(mistake)
    proxy: object = changed.proxy
    if proxy is not None and not (isinstance(proxy, str) and is_proxy(proxy)):
        raise InvalidHookResult(
            f"proxy={str(proxy).rpartition('@')[2]!r:.80}: must be a URL such as http://proxy.example:3128, with one "
            f"of the schemes {', '.join(PROXIES)}"
        )


def _check_link(link: Link, changed: object) -> None:
    if changed is None:
        return
    if not isinstance(changed, Link):
        raise InvalidHookResult(
            f"it returned {changed!r:.80} of type {type(changed).__name__}: return the link, "
            "dataclasses.replace(link, priority=…), or None to drop it"
        )
    if (changed.url, changed.referrer, changed.depth) != (link.url, link.referrer, link.depth):
        raise InvalidHookResult("it changed the link: it may change the priority only")
    if type(changed.priority) is not int or not 0 <= changed.priority <= TOP_LEVEL:
        raise InvalidHookResult(f"priority={changed.priority!r:.80}: pass a whole number from 0 to {TOP_LEVEL}")
