"""Events of a crawl, which go to the observer of its frontier."""

from dataclasses import dataclass

from swath import Event


@dataclass(frozen=True, slots=True)
class Fetched(Event):
    """A request of a crawl ended. `key` is its URL, which is that of robots.txt if a page needed that first. `error` is
    the failure if there is no `status`, and `seconds` is the time of the whole request."""

    key: str
    lane: str
    fence: int | None
    status: int | None
    bytes: int
    seconds: float
    error: str | None
