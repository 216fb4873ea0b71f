"""What the server saw, and whether that was polite."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import IO


@dataclass(frozen=True, slots=True)
class Entry:
    """One request. Times are of the machine's monotonic clock, which all its processes share.

    `started` is when the request had arrived, `ended` when the last byte of the answer was about to be sent, or the
    client was seen to have gone. So a client that counts from its own times is never blamed for the way between.
    """

    started: float
    ended: float
    host: str  # as in the Host header, in lower case, without the default port
    target: str
    agent: str
    status: int  # 0: no answer that could be called one
    complete: bool  # all that was to be sent was sent
    scheme: str = "http"
    retry_after: float | None = None

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}{self.target}"


_FIELDS = tuple(each.name for each in fields(Entry))


@dataclass(frozen=True, slots=True)
class Pair:
    """Two requests to a host that are too close, and by how much time they are apart."""

    first: Entry
    second: Entry
    gap: float


Lane = Callable[[Entry], str]
HOST: Lane = attrgetter("host")


class Log:
    """Requests in the order in which they ended, in memory or in a file of JSON lines, or both."""

    def __init__(self, path: Path | None = None, *, keep: bool = True) -> None:
        self.entries: list[Entry] = []
        self.count = 0
        self._keep = keep
        # Line-buffered: each line is in the file before the next request is answered.
        self._file: IO[str] | None = None if path is None else path.open("a", buffering=1, encoding="utf-8")

    def add(self, entry: Entry) -> None:
        self.count += 1
        if self._keep:
            self.entries.append(entry)
        if self._file is not None:
            self._file.write(json.dumps({name: getattr(entry, name) for name in _FIELDS}) + "\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def read_log(path: Path) -> list[Entry]:
    """The entries of a file, without a last line that is not whole yet."""
    with path.open(encoding="utf-8") as lines:
        return [Entry(**json.loads(line)) for line in lines if line.endswith("\n")]


def too_close(
    log: Iterable[Entry], min_interval: float, *, since: str = "end", slack: float = 0.0, lane: Lane = HOST
) -> list[Pair]:
    """Per host, requests that started sooner than `min_interval` after an earlier one had ended (INV-3).

    With `since="start"`, sooner than that after the earlier one had started: the rule where several at once are
    allowed. `slack` seconds are forgiven; requests that the client gave up need some, since the server learns of it
    late. `lane` says what is paced together, where that is not the host.
    """
    if since not in ("start", "end"):
        raise ValueError(f"since {since!r}: say 'start' or 'end'")
    pairs = []
    for entries in by_lane(log, lane).values():
        latest: Entry | None = None
        for entry in entries:
            if latest is not None:
                gap = entry.started - (latest.ended if since == "end" else latest.started)
                if gap < min_interval - slack:
                    pairs.append(Pair(latest, entry, gap))
            if latest is None or since == "start" or entry.ended > latest.ended:
                latest = entry
    return pairs


def too_many_at_once(log: Iterable[Entry], concurrency: int, *, lane: Lane = HOST) -> dict[str, int]:
    """The hosts that had more requests than that at one moment, and how many they had."""
    guilty = {}
    for host, entries in by_lane(log, lane).items():
        most = _most_at_once(entries)
        if most > concurrency:
            guilty[host] = most
    return guilty


def too_early(log: Iterable[Entry], *, slack: float = 0.0, lane: Lane = HOST) -> list[Pair]:
    """Per host, requests that came before the time that a Retry-After had asked for."""
    pairs = []
    for entries in by_lane(log, lane).values():
        asking: Entry | None = None
        for entry in entries:
            if asking is not None and asking.retry_after is not None:
                gap = entry.started - asking.started
                if gap < asking.retry_after - slack:
                    pairs.append(Pair(asking, entry, gap))
            if entry.retry_after is not None:
                asking = entry
    return pairs


def repeats(log: Iterable[Entry]) -> dict[str, int]:
    """The URLs that were requested more than once, and how often."""
    return {url: count for url, count in Counter(entry.url for entry in log).items() if count > 1}


def by_lane(log: Iterable[Entry], lane: Lane) -> dict[str, list[Entry]]:
    """The entries of each lane, in the order in which they started."""
    lanes: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in sorted(log, key=attrgetter("started")):
        lanes[lane(entry)].append(entry)
    return lanes


def _most_at_once(entries: list[Entry]) -> int:
    def changes() -> Iterator[tuple[float, int]]:
        for entry in entries:
            yield entry.started, 1
            yield entry.ended, -1

    now = most = 0
    for _, change in sorted(changes()):
        now += change
        most = max(most, now)
    return most
