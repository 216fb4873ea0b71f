"""Parse robots.txt by RFC 9309, and find the rule that decides about a URL.

If the RFC is ambiguous, the more polite interpretation applies. Parsing and matching take linear time: `*` is matched
by searching forward, without backtracking.
"""

import re
from typing import NamedTuple, Self
from urllib.parse import quote_from_bytes

from swath.crawl.urls.normalise import normalise_escapes

MAX_BODY = 512 * 1024  # the RFC requires at least 500 KiB
MAX_SITEMAPS = 1_000
MAX_DELAY_SECONDS = 86_400.0
MAX_RULE_TEXT = 500
AGENTS_CACHED = 8

# Spellings of the known keys, with the misspellings that other parsers accept too.
_KEYS = {
    "user-agent": "agent",
    "useragent": "agent",
    "user agent": "agent",
    "allow": "allow",
    "disallow": "disallow",
    "dissallow": "disallow",
    "dissalow": "disallow",
    "disalow": "disallow",
    "diasllow": "disallow",
    "disallaw": "disallow",
    "crawl-delay": "delay",
    "crawldelay": "delay",
    "sitemap": "sitemap",
    "site-map": "sitemap",
}
_TOKEN = re.compile(r"[A-Za-z0-9_-]+")
_NUMBER = re.compile(r"[0-9]{0,9}(?:\.[0-9]{1,9})?")
_PLAIN = re.compile(r"[A-Za-z0-9/?&=._~!'()+,;:@-]*")
_QUERY_ESCAPE = re.compile(r"%(?:2[1789CF]|3[AF]|40)")
_SAFE = "%/?&=._~!'()+,;:@-[]"


class RobotsDecision(NamedTuple):
    """Whether a URL may be fetched, and the line that decides it; None if no line matches."""

    allowed: bool
    rule: str | None


ALLOWED = RobotsDecision(True, None)


class _Rule(NamedTuple):
    start: str
    pieces: tuple[str, ...]  # follow `start` in this order, with anything in between
    end: str
    exact: bool
    size: int
    decision: RobotsDecision

    def matches_rest(self, target: str) -> bool:
        """Return whether a target that begins with `start` matches the rest of the rule."""
        place = len(self.start)
        if self.exact:
            return len(target) == place
        for piece in self.pieces:
            found = target.find(piece, place)
            if found < 0:
                return False
            place = found + len(piece)
        return target.endswith(self.end) and len(target) - len(self.end) >= place


class _Group(NamedTuple):
    """The lines of a group, which one or more agents share."""

    lines: list[tuple[bool, str]]
    delays: list[tuple[int, float]]  # number of agents above the line, and the seconds


class RobotsTxt:
    """A parsed robots.txt file."""

    __slots__ = ("_groups", "_rules", "_uniform", "sitemaps")

    def __init__(
        self, groups: dict[str, list[tuple[int, _Group]]], *, sitemaps: tuple[str, ...], uniform: RobotsDecision | None
    ) -> None:
        self._groups = groups
        self._uniform = uniform
        self._rules: dict[str, tuple[_Rule, ...]] = {}
        self.sitemaps = sitemaps

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Parse a file. Content that is not a robots.txt has no rules."""
        groups: dict[str, list[tuple[int, _Group]]] = {}
        sitemaps: list[str] = []
        group = _Group([], [])
        agents = 0
        naming = False
        for key, value in _parse_lines(body):
            match key:
                case "agent":
                    # Only a rule ends the list of agents, not a Crawl-delay or Sitemap (RFC 9309, 2.2.4).
                    if not naming:
                        group, agents, naming = _Group([], []), 0, True
                    token = _parse_product_token(value)
                    if token:
                        mine = groups.setdefault(token, [])
                        if not mine or mine[-1][1] is not group:
                            mine.append((agents, group))
                        agents += 1
                case "allow" | "disallow":
                    naming = False
                    if value and agents:
                        group.lines.append((key == "allow", value))
                case "delay":
                    # It applies to the agents above it, even if more agents of the group follow.
                    seconds = _parse_delay(value)
                    if seconds is not None and agents:
                        group.delays.append((agents, seconds))
                case _:
                    if value and len(sitemaps) < MAX_SITEMAPS:
                        sitemaps.append(value)
        return cls(groups, sitemaps=tuple(dict.fromkeys(sitemaps)), uniform=None)

    @classmethod
    def uniform(cls, verdict: RobotsDecision) -> Self:
        """Return a file with the same decision for every URL."""
        return cls({}, sitemaps=(), uniform=verdict)

    def decide(self, url: str, agent: str) -> RobotsDecision:
        """Decide whether the crawler with this product token may fetch a normalised URL. The longest match wins."""
        target = _canonicalise(url[url.find("/", 8) :])
        if target == "/robots.txt":
            return ALLOWED
        if self._uniform is not None:
            return self._uniform
        for rule in self._find_rules(_parse_product_token(agent)):
            if target.startswith(rule.start) and rule.matches_rest(target):
                return rule.decision
        return ALLOWED

    def get_crawl_delay(self, agent: str) -> float | None:
        """Return the seconds between two requests that the file asks for, or None."""
        delays = [
            seconds
            for place, group in self._find_groups(_parse_product_token(agent))
            for above, seconds in group.delays
            if place < above
        ]
        return max(delays, default=None)

    def _find_groups(self, token: str) -> list[tuple[int, _Group]]:
        return self._groups.get(token) or self._groups.get("*", [])

    def _find_rules(self, token: str) -> tuple[_Rule, ...]:
        rules = self._rules.get(token)
        if rules is None:
            if len(self._rules) >= AGENTS_CACHED:
                self._rules.clear()
            lines = dict.fromkeys(line for _, group in self._find_groups(token) for line in group.lines)
            # Longest first, and Allow before Disallow of the same length: the first match decides.
            parsed = sorted(
                (_parse_rule(*line) for line in lines), key=lambda rule: (-rule.size, not rule.decision.allowed)
            )
            rules = self._rules[token] = tuple(parsed)
        return rules


def clean_body(body: bytes) -> bytes:
    """Return the part of a file that is parsed, in an ASCII-compatible encoding, without BOM and NULs."""
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        body = body[:MAX_BODY].decode("utf-16", "replace").encode()
    body = body.removeprefix(b"\xef\xbb\xbf")
    if len(body) > MAX_BODY:
        # Drop the last line: half of it could forbid or allow far more than the whole line.
        body = body[:MAX_BODY]
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r"), 0)]
    # Removing NULs may put other BOM bytes first, which a second call would take for an encoding.
    return body.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe")


def _parse_lines(body: bytes) -> list[tuple[str, str]]:
    # Keep bytes that are not UTF-8, to compare them with the bytes of an escaped URL.
    text = clean_body(body).decode("utf-8", "surrogateescape")
    found = []
    for line in text.replace("\r", "\n").split("\n"):
        line = line.partition("#")[0]
        key, colon, value = line.partition(":")
        if not colon:
            # A missing colon is common; exactly two words are unambiguous.
            words = line.split()
            key, value = words if len(words) == 2 else ("", "")
        known = _KEYS.get(key.strip().lower())
        if known is not None:
            found.append((known, value.strip()))
    return found


def _parse_product_token(value: str) -> str:
    """Return the product token at the start of `value`: `Swath/1.0 (x)` gives `swath`, and `* (all)` gives `*`."""
    if value[:1] == "*" and (len(value) == 1 or value[1].isspace()):
        return "*"
    found = _TOKEN.match(value)
    return found[0].lower() if found else ""


def _parse_delay(value: str) -> float | None:
    found = _NUMBER.match(value)
    return min(float(found[0]), MAX_DELAY_SECONDS) if found and found[0] else None


def _parse_rule(allow: bool, value: str) -> _Rule:
    text = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")[:MAX_RULE_TEXT]
    verdict = RobotsDecision(allow, f"{'Allow' if allow else 'Disallow'}: {text}")
    ends = value[-1] == "$"
    pattern = _canonicalise(value.removesuffix("$"), safe=_SAFE + "*")
    start, *pieces = pattern.split("*")
    exact = ends and not pieces
    end = pieces.pop() if ends and pieces else ""
    return _Rule(start, tuple(filter(None, pieces)), end, exact, len(pattern) + ends, verdict)


def _canonicalise(text: str, *, safe: str = _SAFE) -> str:
    """Return one spelling of a path and query, so that equivalent rules and URLs compare equal (RFC 9309, 2.2.2).

    A literal `*` or `$` in a URL is escaped, as a rule has to write it.
    """
    if _PLAIN.fullmatch(text):
        return text
    path, mark, query = normalise_escapes(quote_from_bytes(text.encode("utf-8", "surrogateescape"), safe)).partition(
        "?"
    )
    return path + mark + _QUERY_ESCAPE.sub(lambda found: chr(int(found[0][1:], 16)), query) if mark else path
