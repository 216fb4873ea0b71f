"""The log of requests that the server received, and checks for impolite ones."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import IO


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One request. Times are those of the monotonic clock, which all processes of the machine share.

    `started` is when the request arrived. `ended` is just before the server sends the last byte, or when it sees that
    the client disconnected. So a client that measures with its own clock is never blamed for network delays.
    """

    started: float
    ended: float
    host: str  # as in the Host header, in lower case, without the default port
    target: str
    agent: str
    status: int  # 0: not a valid HTTP response
    complete: bool  # the server sent the whole response
    scheme: str = "http"
    retry_after: float | None = None

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}{self.target}"


_FIELDS = tuple(each.name for each in fields(LoggedRequest))


@dataclass(frozen=True, slots=True)
class RequestPair:
    """Two requests to a host that are too close, and the seconds between them."""

    first: LoggedRequest
    second: LoggedRequest
    gap: float


Lane = Callable[[LoggedRequest], str]
HOST: Lane = attrgetter("host")


class RequestLog:
    """Requests in the order of their end, in memory, in a file of JSON lines, or both."""

    def __init__(self, path: Path | None = None, *, keep: bool = True) -> None:
        self.requests: list[LoggedRequest] = []
        self.count = 0
        self._keep = keep
        # Line buffering: each line is in the file before the server answers the next request.
        self._file: IO[str] | None = None if path is None else path.open("a", buffering=1, encoding="utf-8")

    def add(self, entry: LoggedRequest) -> None:
        self.count += 1
        if self._keep:
            self.requests.append(entry)
        if self._file is not None:
            self._file.write(json.dumps({name: getattr(entry, name) for name in _FIELDS}) + "\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def read_log(path: Path) -> list[LoggedRequest]:
    """Read the requests in a file. An incomplete last line is skipped."""
    with path.open(encoding="utf-8") as lines:
        return [LoggedRequest(**json.loads(line)) for line in lines if line.endswith("\n")]


def find_too_close(
    log: Iterable[LoggedRequest], min_interval: float, *, since: str = "end", slack: float = 0.0, lane: Lane = HOST
) -> list[RequestPair]:
    """Return, per host, requests that started less than `min_interval` after the end of an earlier one (INV-3).

    With `since="start"` the interval counts from the start of the earlier request, as in lanes with a concurrency above
    one. `slack` seconds are tolerated; requests that the client aborted need some, because the server notices late.
    `lane` maps a request to what is paced together, if that is not the host.
    """
    if since not in ("start", "end"):
        raise ValueError(f"since={since!r} is not valid; use 'start' or 'end'")
    pairs = []
    for entries in group_by_lane(log, lane).values():
        latest: LoggedRequest | None = None
        for entry in entries:
            if latest is not None:
                gap = entry.started - (latest.ended if since == "end" else latest.started)
                if gap < min_interval - slack:
                    pairs.append(RequestPair(latest, entry, gap))
            if latest is None or since == "start" or entry.ended > latest.ended:
                latest = entry
    return pairs


def find_too_many_at_once(log: Iterable[LoggedRequest], concurrency: int, *, lane: Lane = HOST) -> dict[str, int]:
    """Return the hosts that had more than `concurrency` requests in flight at once, with the highest number."""
    guilty = {}
    for host, entries in group_by_lane(log, lane).items():
        most = _count_most_at_once(entries)
        if most > concurrency:
            guilty[host] = most
    return guilty


def find_too_early(log: Iterable[LoggedRequest], *, slack: float = 0.0, lane: Lane = HOST) -> list[RequestPair]:
    """Return, per host, requests that came before the end of an earlier Retry-After."""
    pairs = []
    for entries in group_by_lane(log, lane).values():
        asking: LoggedRequest | None = None
        for entry in entries:
            if asking is not None and asking.retry_after is not None:
                gap = entry.started - asking.started
                if gap < asking.retry_after - slack:
                    pairs.append(RequestPair(asking, entry, gap))
            if entry.retry_after is not None:
                asking = entry
    return pairs


def find_repeats(log: Iterable[LoggedRequest]) -> dict[str, int]:
    """Return the URLs that were requested more than once, with the number of requests."""
    return {url: count for url, count in Counter(entry.url for entry in log).items() if count > 1}


def group_by_lane(log: Iterable[LoggedRequest], lane: Lane) -> dict[str, list[LoggedRequest]]:
    """Return the requests of each lane in the order of their start."""
    lanes: defaultdict[str, list[LoggedRequest]] = defaultdict(list)
    for entry in sorted(log, key=attrgetter("started")):
        lanes[lane(entry)].append(entry)
    return lanes


def _count_most_at_once(entries: list[LoggedRequest]) -> int:
    def changes() -> Iterator[tuple[float, int]]:
        for entry in entries:
            yield entry.started, 1
            yield entry.ended, -1

    now = most = 0
    for _, change in sorted(changes()):
        now += change
        most = max(most, now)
    return most
