"""robots.txt by RFC 9309: what a file says, and which of its rules decides about a URL.

Where the RFC leaves room, the politer reading is taken. Parsing and matching take time in proportion to their input,
whatever the patterns: `*` is matched by searching forwards, never by trying again.
"""

import re
from typing import NamedTuple, Self
from urllib.parse import quote_from_bytes

from swath.crawl.urls.normalise import normalise_escapes

MAX_BODY = 512 * 1024  # the RFC asks for 500 KiB at least
MAX_SITEMAPS = 1_000
MAX_DELAY_SECONDS = 86_400.0
MAX_RULE_TEXT = 500
AGENTS_CACHED = 8

# What people write for the three words that matter; the misspellings are those that other parsers forgive.
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
    """Whether a URL may be fetched, and the line that says so; None where no line speaks of it."""

    allowed: bool
    rule: str | None


ALLOWED = RobotsDecision(True, None)


class _Rule(NamedTuple):
    start: str
    pieces: tuple[str, ...]  # follow the start in this order, with anything in between
    end: str
    exact: bool
    size: int
    decision: RobotsDecision

    def matches_rest(self, target: str) -> bool:
        """Whether a target that begins with `start` matches to the end."""
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
    """Rules that some agents share, as they were written."""

    lines: list[tuple[bool, str]]
    delays: list[tuple[int, float]]  # how many agents had been named, and the seconds


class RobotsTxt:
    """What a robots.txt says to each crawler."""

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
        """What the file says; bytes that are no robots.txt say nothing."""
        groups: dict[str, list[tuple[int, _Group]]] = {}
        sitemaps: list[str] = []
        group = _Group([], [])
        agents = 0
        naming = False
        for key, value in _parse_lines(body):
            match key:
                case "agent":
                    # Only rules end the list of agents: a Crawl-delay or Sitemap in between does not (RFC 2.2.4).
                    if not naming:
                        group, agents, naming = _Group([], []), 0, True
                    token = _product_token(value)
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
                    # It speaks to the agents above it, also when others join the group below.
                    seconds = _parse_delay(value)
                    if seconds is not None and agents:
                        group.delays.append((agents, seconds))
                case _:
                    if value and len(sitemaps) < MAX_SITEMAPS:
                        sitemaps.append(value)
        return cls(groups, sitemaps=tuple(dict.fromkeys(sitemaps)), uniform=None)

    @classmethod
    def uniform(cls, verdict: RobotsDecision) -> Self:
        """The same verdict for every URL."""
        return cls({}, sitemaps=(), uniform=verdict)

    def decide(self, url: str, agent: str) -> RobotsDecision:
        """Whether the crawler with that product token may fetch a normalised URL, by the longest rule that matches."""
        target = _canonicalise(url[url.find("/", 8) :])
        if target == "/robots.txt":
            return ALLOWED
        if self._uniform is not None:
            return self._uniform
        for rule in self._rules_for(_product_token(agent)):
            if target.startswith(rule.start) and rule.matches_rest(target):
                return rule.decision
        return ALLOWED

    def crawl_delay(self, agent: str) -> float | None:
        """The seconds that the crawler is asked to leave between two requests."""
        said = [
            seconds
            for place, group in self._groups_for(_product_token(agent))
            for above, seconds in group.delays
            if place < above
        ]
        return max(said, default=None)

    def _groups_for(self, token: str) -> list[tuple[int, _Group]]:
        return self._groups.get(token) or self._groups.get("*", [])

    def _rules_for(self, token: str) -> tuple[_Rule, ...]:
        rules = self._rules.get(token)
        if rules is None:
            if len(self._rules) >= AGENTS_CACHED:
                self._rules.clear()
            lines = dict.fromkeys(line for _, group in self._groups_for(token) for line in group.lines)
            # The longest first, and of equals those that allow: the first match is the verdict.
            made = sorted(
                (_parse_rule(*line) for line in lines), key=lambda rule: (-rule.size, not rule.decision.allowed)
            )
            rules = self._rules[token] = tuple(made)
        return rules


def clean_body(body: bytes) -> bytes:
    """As much of a file as is parsed, in an encoding that contains ASCII, without BOM and NULs."""
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        body = body[:MAX_BODY].decode("utf-16", "replace").encode()
    body = body.removeprefix(b"\xef\xbb\xbf")
    if len(body) > MAX_BODY:
        # Half a line could forbid or allow far more than the whole of it.
        body = body[:MAX_BODY]
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r"), 0)]
    # What marks an encoding may come to stand in front; the second time, it would be believed.
    return body.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe")


def _parse_lines(body: bytes) -> list[tuple[str, str]]:
    # Octets that are no UTF-8 survive as what they are, to be compared with those of an escaped URL.
    text = clean_body(body).decode("utf-8", "surrogateescape")
    found = []
    for line in text.replace("\r", "\n").split("\n"):
        line = line.partition("#")[0]
        key, colon, value = line.partition(":")
        if not colon:
            # The colon is forgotten often enough; two words leave no doubt.
            words = line.split()
            key, value = words if len(words) == 2 else ("", "")
        known = _KEYS.get(key.strip().lower())
        if known is not None:
            found.append((known, value.strip()))
    return found


def _product_token(value: str) -> str:
    """The product token that begins `value`, in lower case: that of `Swath/1.0 (x)` is `swath`."""
    if value[:1] == "*" and not value[1:].strip():
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
    """One spelling for a path with its query, so that a rule and a URL that mean the same compare equal (RFC 2.2.2).

    In a URL a literal `*` or `$` is escaped, as a rule has to write it.
    """
    if _PLAIN.fullmatch(text):
        return text
    path, mark, query = normalise_escapes(quote_from_bytes(text.encode("utf-8", "surrogateescape"), safe)).partition(
        "?"
    )
    return path + mark + _QUERY_ESCAPE.sub(lambda found: chr(int(found[0][1:], 16)), query) if mark else path
