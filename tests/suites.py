"""Exports for external conformance runners: the functions that public test suites of other projects exercise.

The runners for WPT, google/robotstxt, crawler-commons, publicsuffix.org and others import these names from here, so
that they keep working when a function moves or gets another name inside swath. This module keeps the names and
signatures that the runners know; `test_suites.py` checks that each of them still works.
"""

from swath.crawl.http.address import literal, public
from swath.crawl.http.connect_to import split
from swath.crawl.http.fetch import Fetcher
from swath.crawl.http.response import Answer, Headers, Limits
from swath.crawl.parse.charset import codec_of, declared_charset, decode, encoding_of, header_charset
from swath.crawl.parse.content_type import kind_of
from swath.crawl.parse.feeds import read_feed
from swath.crawl.parse.page import Read, read
from swath.crawl.robots.parser import Robots
from swath.crawl.urls.normalise import BLOCKED_PORTS, MAX_URL, host, normalise, normalise_all, site, surt
from swath.crawl.urls.scope import scope_of

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
