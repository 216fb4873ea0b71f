"""A demo web for tests of crawlers: any size, reproducible from a seed, on one loopback port, with faults of all kinds.

    web = Web(seed=1, hosts=20, pages=1000)          # a description; pages are computed when they are requested
    async with serve(web) as server:                 # binds 127.0.0.1 only
        ...                                          # crawl web.seeds with --connect-to {server.connect_to}
        assert web.check(server.requested_urls, archived) == []
        assert find_too_close(server.log.requests, 1.0) == []

**Hosts.** `h0000.demo.test`, `h0001.demo.test` and so on are ordinary hosts. The first is the largest; `skew` says how
fast the sizes fall. The pages of a host form a tree below its front page and also link across the web. They use several
charsets and write URLs in every valid way. Some hosts have a robots.txt, some a sitemap that lists pages without links.
Each kind of fault has its own hosts, linked from `faults.demo.test`: `statuses.demo.test/404`,
`robots-huge.demo.test`, `slow.demo.test/drip`. `FAULTS` lists the kinds; `faults={"slow", ...}` selects some of them.
All hosts share one registrable domain, so a crawl of scope `domain` covers the whole web.

**Shops.** `Web(shops=2, books=100)` adds `shop0.demo.test` and so on, for crawlers that take data out of pages:
listings, details, a search form, and a JSON API under `/api/books`. The last two take GET and POST. `list_books(web)`
yields what they have.

**Expectations.** Each URL has a requirement: a crawl MUST archive it, must TRY it, MAY request it, or must NEVER do so
(see `Requirement`). `web.expectation(url)` returns it for any URL. `urls_to_archive()`, `urls_to_try()`,
`optional_urls()` and `forbidden_urls()` return sets of URLs; `check()` compares a crawl with all of them. They hold for
a crawler that has the product token `swath` and follows RFC 9309 and the WHATWG standards.

**Time.** A slow response takes `slow_seconds`; tests make it short. A response that hangs does so until the client
disconnects. Hosts that recover count requests, not seconds.

**Log.** The server logs every request with its times, in memory or as JSON lines. `find_too_close`,
`find_too_many_at_once`, `find_too_early` and `find_repeats` search the log for impolite requests.

**Network.** `swath.testing.web.network` adds hosts that cannot be reached, or only in part, and says what a true report
about a crawl of them is.

To serve the web from another process, use `with spawn(web, log=path) as process`, or run the command below. It stops on
SIGINT, SIGTERM or, with --until-eof, when its standard input ends.

    python -m swath.testing.web --port 0 --hosts 20 --pages 1000 --seed 1 --log requests.jsonl --until-eof

Modules in this package import the standard library and each other.
"""

from swath.testing.web.expectation import Expectation, Requirement
from swath.testing.web.faults import FAULTS
from swath.testing.web.page import DemoPage, PageLink
from swath.testing.web.process import WebProcess, spawn
from swath.testing.web.request_log import (
    LoggedRequest,
    RequestLog,
    RequestPair,
    find_repeats,
    find_too_close,
    find_too_early,
    find_too_many_at_once,
    group_by_lane,
    read_log,
)
from swath.testing.web.scripted_response import Request, ScriptedResponse
from swath.testing.web.server import WebServer, serve
from swath.testing.web.shop import DemoBook, list_books
from swath.testing.web.web import Web

__all__ = [
    "FAULTS",
    "DemoBook",
    "DemoPage",
    "Expectation",
    "LoggedRequest",
    "PageLink",
    "Request",
    "RequestLog",
    "RequestPair",
    "Requirement",
    "ScriptedResponse",
    "Web",
    "WebProcess",
    "WebServer",
    "find_repeats",
    "find_too_close",
    "find_too_early",
    "find_too_many_at_once",
    "group_by_lane",
    "list_books",
    "read_log",
    "serve",
    "spawn",
]
