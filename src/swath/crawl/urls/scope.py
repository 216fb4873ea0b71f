"""The scope of a crawl: which URLs belong to it.

The kind of scope says how far from its seeds a crawl may go:

    page     the seeds themselves
    prefix   everything in or below the directory of a seed
    host     the hosts of the seeds, each with its port
    domain   the registrable domains of the seeds, on any port
    any      everything

The scheme and a leading `www.` are ignored: sites redirect from one to the other, and a crawl of `example.com` should
not end at `www.example.com`.
"""

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from typing import Final, Literal, get_args

from swath import InvalidSetting
from swath.crawl.urls.normalise import host, parse_seed, site

ScopeKind = Literal["page", "prefix", "host", "domain", "any"]

REASONS: Final = {
    "scope": "it is outside the scope of the seeds",
    "host": "its host, or a domain above it, is in the list of excluded hosts",
    "exclude": "an --exclude pattern matches it",
    "include": "no --include pattern matches it",
    "depth": "it is more links away from a seed than --depth allows",
}

NAMES_REMEMBERED = 4_096

_ADDRESS = re.compile(r"[0-9A-Fa-f.:]+")


class NameSet:
    """A set of names at eight bytes each, for millions of seeds. With a million names, 1 in 10^13 lookups is a false
    positive."""

    __slots__ = ("_covered", "_digests", "_known")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._digests = array("Q", sorted(map(_digest, names)))
        # The links of a page have few hosts, so most lookups are in these caches.
        self._known: dict[str, bool] = {}
        self._covered: dict[str, bool] = {}

    def extend(self, names: Iterable[str]) -> "NameSet":
        """Return a set that has more names."""
        extended = NameSet(names)
        extended._digests = array("Q", sorted(chain(self._digests, extended._digests)))
        return extended

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
        """Return whether the host or one of its parent domains is in the set."""
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
    # Python's own hash differs between processes, but all processes of a crawl need the same scope.
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a crawl. `build_scope` creates one from settings."""

    kind: ScopeKind = "any"
    footprint: NameSet = field(default_factory=NameSet)
    include: tuple[re.Pattern[str], ...] = ()
    exclude: tuple[re.Pattern[str], ...] = ()
    excluded_hosts: NameSet = field(default_factory=NameSet)
    depth: int | None = None

    def find_refusal(self, url: str, depth: int, *, any_host: bool = False) -> str | None:
        """Return one of `REASONS` if the normalised URL, `depth` links away from a seed, is out of scope; else None.

        With `any_host`, it may be on any host; the other rules hold.
        """
        if self.kind != "any" and not any_host and not self._is_near_seed(url):
            return "scope"
        return self.find_seed_refusal(url) or ("depth" if self.depth is not None and depth > self.depth else None)

    def find_seed_refusal(self, url: str) -> str | None:
        """Return one of `REASONS` if a normalised URL is excluded even as a seed; else None."""
        if len(self.excluded_hosts) and self.excluded_hosts.covers(host(url)):
            return "host"
        for pattern in self.exclude:
            if pattern.search(url):
                return "exclude"
        if self.include and not any(pattern.search(url) for pattern in self.include):
            return "include"
        return None

    def describe_rule(self, reason: str, url: str, depth: int) -> str:
        """Return the option that refuses a URL for one of `REASONS`, with its value."""
        match reason:
            case "scope":
                return f"--scope {self.kind}: {REASONS[reason]}"
            case "host":
                return f"--exclude-hosts: {REASONS[reason]}"
            case "exclude":
                pattern = next(one.pattern for one in self.exclude if one.search(url))
                return f"--exclude {pattern}: this pattern matches it"
            case "include":
                return f"--include: {REASONS[reason]}"
            case _:
                return f"--depth {self.depth}: it is {depth} links away from a seed"

    def _is_near_seed(self, url: str) -> bool:
        name = get_scope_name(url, self.kind)
        if self.kind != "prefix":
            return name in self.footprint
        # The seed may be in any parent directory.
        while name not in self.footprint:
            end = name.rfind("/", 0, -1)
            if end < 0:
                return False
            name = name[: end + 1]
        return True


def get_scope_name(url: str, kind: ScopeKind) -> str:
    """Return the name that stands for a normalised URL in a scope of this kind."""
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
    """Build a scope from normalised seeds, which are read once and not kept; for `any` they are not read.

    `excluded_hosts` are lines with one host each, which includes its subdomains. Comments start with `#`. Lines of
    /etc/hosts, an address followed by hosts, are accepted too.
    """
    if kind not in get_args(ScopeKind):
        raise InvalidSetting(f"scope {kind!r} is not one of {', '.join(get_args(ScopeKind))}.")
    if depth is not None and depth < 0:
        raise InvalidSetting(f"depth {depth} is negative. Use 0 to crawl only the seeds, or omit it for no limit.")
    known: ScopeKind = next(one for one in get_args(ScopeKind) if one == kind)
    return Scope(
        kind=known,
        footprint=NameSet(() if known == "any" else (get_scope_name(url, known) for url in seeds)),
        include=tuple(_compile_pattern(text, "include") for text in include),
        exclude=tuple(_compile_pattern(text, "exclude") for text in exclude),
        excluded_hosts=NameSet(_parse_hosts(excluded_hosts)),
        depth=depth,
    )


def _compile_pattern(text: str, option: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        meant = f" For URLs that end with {text[1:]}, write {re.escape(text[1:])}$" if text.startswith("*.") else ""
        raise InvalidSetting(f"{option} pattern {text!r} is not a regular expression: {error}.{meant}") from error


def _parse_hosts(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        names = line.partition("#")[0].split()
        if len(names) > 1:
            names = names[1:] if _ADDRESS.fullmatch(names[0]) else [" ".join(names)]
        for name in names:
            url = parse_seed(name.removeprefix("*."))
            # An exclusion that is ignored silently would be noticed only by the excluded host.
            if url is None:
                raise InvalidSetting(f"line {number} of the excluded hosts is not a host: {line.strip()[:100]!r}.")
            yield host(url)
