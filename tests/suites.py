"""Exports for external conformance runners: the functions that public test suites of other projects exercise.

Runners for web-platform-tests, google/robotstxt, crawler-commons, publicsuffix.org and others import these names from
here, so they keep working when a function moves or gets another name inside swath. A name in this module never changes.
"""

from typing import Any

from swath.crawl.http.address import is_public as public
from swath.crawl.http.address import parse_ip_literal as literal
from swath.crawl.http.connect_to import split_url as split
from swath.crawl.http.fetcher import Fetcher
from swath.crawl.http.response import Headers, Limits
from swath.crawl.http.response import Response as Answer
from swath.crawl.parse.charset import charset_from_body as declared_charset
from swath.crawl.parse.charset import charset_from_header as header_charset
from swath.crawl.parse.charset import decode_text as decode
from swath.crawl.parse.charset import encoding_from_label as encoding_of
from swath.crawl.parse.charset import get_python_codec as codec_of
from swath.crawl.parse.content_type import detect_kind as kind_of
from swath.crawl.parse.feeds import parse_feed as read_feed
from swath.crawl.parse.page import ParsedPage as Read
from swath.crawl.parse.page import parse_page as read
from swath.crawl.robots.parser import RobotsTxt
from swath.crawl.urls.normalise import BLOCKED_PORTS, MAX_URL, host, normalise, normalise_all, site, surt
from swath.crawl.urls.scope import Scope, build_scope


def scope_of(kind: str, **settings: Any) -> "SuiteScope":
    return SuiteScope(build_scope(kind, **settings))


class SuiteScope:
    """A scope with the method name that the runners know."""

    def __init__(self, scope: Scope) -> None:
        self.reason = scope.find_refusal


class Robots(RobotsTxt):
    """A robots.txt file with the method names that the runners know."""

    __slots__ = ()

    verdict = RobotsTxt.decide
    delay = RobotsTxt.get_crawl_delay


__all__ = [
    "BLOCKED_PORTS",
    "MAX_URL",
    "Answer",
    "Fetcher",
    "Headers",
    "Limits",
    "Read",
    "Robots",
    "codec_of",
    "declared_charset",
    "decode",
    "encoding_of",
    "header_charset",
    "host",
    "kind_of",
    "literal",
    "normalise",
    "normalise_all",
    "public",
    "read",
    "read_feed",
    "scope_of",
    "site",
    "split",
    "surt",
]
