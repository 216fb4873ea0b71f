"""A web to crawl: as large as wanted, the same each time, on one loopback port, and with everything that goes wrong.

    web = Web(seed=1, hosts=20, pages=1000)          # pure: a description that computes pages when asked
    async with serve(web) as served:                 # 127.0.0.1 only
        ...                                          # crawl web.seeds with --connect-to {served.connect_to}
        assert web.check(served.requested, archived) == []
        assert too_close(served.log.entries, 1.0) == []

**Hosts.** `h0000.demo.test` and on are ordinary: sizes fall with the number (`skew`), pages hang in a tree below the
front page and link across, in several charsets and every spelling of a URL; some have a robots.txt, some a sitemap
with pages that nothing else names. Kinds of trouble have hosts of their own, linked from `trouble.demo.test`:
`statuses.demo.test/404`, `robots-huge.demo.test`, `slow.demo.test/drip`. `KINDS` lists them; `trouble={"slow", …}`
takes some. All are names below one registrable domain, so that a crawl of scope `domain` covers the web.

**Truth.** Each URL has a fate: it MUST be archived, a crawl must TRY it, MAY request it or NEVER does (see `Fate`).
`web.verdict(url)` knows it for any URL; `expected()`, `tried()`, `may()` and `forbidden()` are the sets; `check()`
compares a crawl with all of them. They hold for a crawler whose product token is `swath` and that follows RFC 9309
and the WHATWG standards.

**Time.** `patience` is how many seconds a slow answer takes; tests make it small. What hangs, hangs until the client
goes. Hosts that come back count requests, not seconds.

**Log.** Every request with its times, in memory or as JSON lines: `too_close`, `too_many_at_once`, `too_early` and
`repeats` find what was impolite.

In a process of its own: `with spawn(web, log=path) as spawned`, or, until a signal or the end of its standard input,

    python -m swath.testing.web --port 0 --hosts 20 --pages 1000 --seed 1 --log requests.jsonl --until-eof
"""

from swath.testing.web.answer import Answer, Ask
from swath.testing.web.expectation import Fate, Verdict
from swath.testing.web.faults import KINDS
from swath.testing.web.log import (
    Entry,
    Log,
    Pair,
    by_lane,
    read_log,
    repeats,
    too_close,
    too_early,
    too_many_at_once,
)
from swath.testing.web.page import Link, Page
from swath.testing.web.process import Spawned, spawn
from swath.testing.web.server import Served, serve
from swath.testing.web.web import Web

__all__ = [
    "KINDS",
    "Answer",
    "Ask",
    "Entry",
    "Fate",
    "Link",
    "Log",
    "Page",
    "Pair",
    "Served",
    "Spawned",
    "Verdict",
    "Web",
    "by_lane",
    "read_log",
    "repeats",
    "serve",
    "spawn",
    "too_close",
    "too_early",
    "too_many_at_once",
]
