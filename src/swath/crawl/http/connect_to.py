"""The parts of a URL as libcurl sees them, and the mapping of `--connect-to`."""

import re
from collections.abc import Iterable
from typing import NamedTuple, Self

from swath import UsageError

# Strict, so that libcurl and this pattern always find the same host in a URL. Every normalised URL matches, except a
# few whose hosts cannot exist in DNS.
URL_PATTERN = re.compile(
    r"(?P<scheme>https?)://(?:[^/?#@\\]*@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[!-\"$->@-~]*)?(?P<query>\?[!-\"$-~]*)?(?:#.*)?",
    re.ASCII | re.DOTALL,
)
RULE_PATTERN = re.compile(r"(\[[^\]]*\]|[^:\[\]]*):([0-9]*):(\[[^\]]*\]|[^:\[\]]*):([0-9]*)", re.ASCII)
DEFAULT_PORTS = {"http": 80, "https": 443}
HIGHEST_PORT = 65_535


class UrlParts(NamedTuple):
    """The parts of a URL. `host` keeps the brackets of an IPv6 address; `authority` is the Host header."""

    url: str  # without user, password and fragment
    scheme: str
    host: str
    port: int
    authority: str
    path: str  # with the query: the request target


def split_url(url: str) -> UrlParts | None:
    """Split an http or https URL; return None if it cannot be fetched.

    A user name and password are dropped: a crawler does not log in.
    """
    found = URL_PATTERN.fullmatch(url)
    if found is None:
        return None
    scheme, host, given, path, query = found.groups()
    default = DEFAULT_PORTS[scheme]
    port = default if given is None else int(given)
    if not 0 < port <= HIGHEST_PORT:
        return None
    authority = host if port == default else f"{host}:{port}"
    wanted = (path or "/") + (query or "")
    return UrlParts(f"{scheme}://{authority}{wanted}", scheme, host, port, authority, wanted)


class ConnectRule(NamedTuple):
    """One `HOST:PORT:HOST:PORT` of `--connect-to`. An empty source matches all, an empty target changes nothing."""

    host: str
    port: int | None
    to_host: str
    to_port: int | None


class ConnectTo:
    """Connect to another host and port than the URL says. The Host header and certificate name do not change."""

    def __init__(self, rules: Iterable[ConnectRule] = ()) -> None:
        self._rules = tuple(rules)

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """Parse rules in the syntax of curl."""
        rules = []
        for text in texts:
            found = RULE_PATTERN.fullmatch(text)
            ports = () if found is None else (found[2], found[4])
            if found is None or any(port and not 0 < int(port) <= HIGHEST_PORT for port in ports):
                raise UsageError(
                    f"connect-to {text!r} is not HOST:PORT:HOST:PORT. Example: example.com:443:127.0.0.1:8443. "
                    "Leave HOST or PORT empty to match any, or to keep the original"
                )
            host, port, to_host, to_port = found.groups()
            rules.append(
                ConnectRule(host.lower(), int(port) if port else None, to_host, int(to_port) if to_port else None)
            )
        return cls(rules)

    def find(self, host: str, port: int) -> tuple[str, int] | None:
        """Return where to connect for this host and port by the first matching rule, or None if no rule matches."""
        for rule in self._rules:
            if rule.host in ("", host.lower()) and rule.port in (None, port):
                return rule.to_host or host, rule.to_port or port
        return None
