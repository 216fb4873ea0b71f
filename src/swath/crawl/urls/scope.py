"""Scope: which of the URLs that are found belong to the crawl.

A crawl stays around its seeds. How closely is its kind:

    page     the seeds themselves
    prefix   what lies in or under the directory of a seed
    host     the hosts of the seeds, each with its port
    domain   the registrable domains of the seeds, on any port
    any      everything

The scheme makes no difference, nor does a leading `www.`: a site moves from one to the other by a redirect, and a
crawl of `example.com` that ended at `www.example.com` would be a disappointment.
"""

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Literal, get_args

from swath.core.errors import InvalidSetting
from swath.crawl.urls.normalise import host, parse_seed, site

ScopeKind = Literal["page", "prefix", "host", "domain", "any"]

REASONS: Final = {
    "scope": "it lies outside the scope around the seeds",
    "host": "its host, or a domain above it, is in the list of excluded hosts",
    "exclude": "an --exclude pattern matches it",
    "include": "no --include pattern matches it",
    "depth": "it is more links away from a seed than --depth allows",
}

NAMES_REMEMBERED = 4_096

_ADDRESS = re.compile(r"[0-9A-Fa-f.:]+")


class NameSet:
    """A set of names in eight bytes each, so that a million seeds fit; a stranger's name is in it once in 10^13."""

    __slots__ = ("_covered", "_digests", "_known")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._digests = array("Q", sorted(map(_digest, names)))
        # The links of a page name few hosts, so most questions have just been answered.
        self._known: dict[str, bool] = {}
        self._covered: dict[str, bool] = {}

    def __len__(self) -> int:
        return len(self._digests)

    def __contains__(self, name: str) -> bool:
        known = self._known.get(name)
        if known is None:
            digest = _digest(name)
            place = bisect_left(self._digests, digest)
            known = place < len(self._digests) and self._digests[place] == digest
            _cache_result(self._known, name, known)
        return known

    def covers(self, name: str) -> bool:
        """Whether the host or a domain above it is in the set."""
        covered = self._covered.get(name)
        if covered is None:
            labels = name.split(".")
            covered = any(".".join(labels[start:]) in self for start in range(len(labels)))
            _cache_result(self._covered, name, covered)
        return covered


def _cache_result(answers: dict[str, bool], name: str, answer: bool) -> None:
    if len(answers) >= NAMES_REMEMBERED:
        answers.clear()
    answers[name] = answer


def _digest(name: str) -> int:
    # Python's own hash differs between processes, and the processes of a crawl share their scope.
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True, slots=True)
class Scope:
    """What belongs to a crawl. `scope_of` makes one from what a person writes."""

    kind: ScopeKind = "any"
    footprint: NameSet = field(default_factory=NameSet)
    include: tuple[re.Pattern[str], ...] = ()
    exclude: tuple[re.Pattern[str], ...] = ()
    excluded_hosts: NameSet = field(default_factory=NameSet)
    depth: int | None = None

    def reason(self, url: str, depth: int) -> str | None:
        """None when the normalised URL, found so many links from a seed, is in scope; else one of `REASONS`."""
        if self.kind != "any" and not self._near(url):
            return "scope"
        if len(self.excluded_hosts) and self.excluded_hosts.covers(host(url)):
            return "host"
        for pattern in self.exclude:
            if pattern.search(url):
                return "exclude"
        if self.include and not any(pattern.search(url) for pattern in self.include):
            return "include"
        if self.depth is not None and depth > self.depth:
            return "depth"
        return None

    def _near(self, url: str) -> bool:
        name = scope_name(url, self.kind)
        if self.kind != "prefix":
            return name in self.footprint
        # The seed may lie in any directory above.
        while name not in self.footprint:
            end = name.rfind("/", 0, -1)
            if end < 0:
                return False
            name = name[: end + 1]
        return True


def scope_name(url: str, kind: ScopeKind) -> str:
    """What a normalised URL is called in a footprint of that kind."""
    start = url.find("/") + 2
    match kind:
        case "host":
            return url[start : url.find("/", 8)].removeprefix("www.")
        case "domain":
            return site(url)
        case "prefix":
            query = url.find("?")
            return url[start : url.rfind("/", 0, query if query > 0 else None) + 1].removeprefix("www.")
        case "page" | "any":
            return url[start:].removeprefix("www.")


def build_scope(
    kind: str,
    *,
    seeds: Iterable[str] = (),
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    excluded_hosts: Iterable[str] = (),
    depth: int | None = None,
) -> Scope:
    """The scope around normalised seeds, which are read once and not kept; for `any` they are not read at all.

    `excluded_hosts` are lines: a host each, which covers its subdomains, comments behind `#`; the form of
    /etc/hosts, an address and then hosts, is taken too.
    """
    if kind not in get_args(ScopeKind):
        raise InvalidSetting(f"scope {kind!r} is none of {', '.join(get_args(ScopeKind))}.")
    if depth is not None and depth < 0:
        raise InvalidSetting(f"depth {depth} is negative. 0 crawls the seeds alone, no depth is no limit.")
    known: ScopeKind = next(one for one in get_args(ScopeKind) if one == kind)
    return Scope(
        kind=known,
        footprint=NameSet(() if known == "any" else (scope_name(url, known) for url in seeds)),
        include=tuple(_compile_pattern(text, "include") for text in include),
        exclude=tuple(_compile_pattern(text, "exclude") for text in exclude),
        excluded_hosts=NameSet(_parse_hosts(excluded_hosts)),
        depth=depth,
    )


def _compile_pattern(text: str, option: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidSetting(f"{option} pattern {text!r} is no regular expression: {error}.") from error


def _parse_hosts(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        names = line.partition("#")[0].split()
        if len(names) > 1:
            names = names[1:] if _ADDRESS.fullmatch(names[0]) else [" ".join(names)]
        for name in names:
            url = parse_seed(name.removeprefix("*."))
            # An exclusion that is silently none would be found out by the excluded.
            if url is None:
                raise InvalidSetting(f"line {number} of the excluded hosts names no host: {line.strip()[:100]!r}.")
            yield host(url)
