"""Whole crawls of the demo web: what is fetched is what a perfect crawl would fetch, at the pace that was asked for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from swath.crawl.settings import CrawlSettings
from swath.testing.web import Web, WebProcess, find_repeats, find_too_close, find_too_many_at_once, serve, spawn
from tests.crawl.archives import archived_urls, check_archive
from tests.crawl.dns import NameServer
from tests.crawl.driving import crawl, crawl_here


@pytest.fixture
def quiet_web(tmp_path: Path) -> Iterator[tuple[Web, WebProcess]]:
    web = Web(seed=3, hosts=8, pages=120, faults=False, slow_seconds=0.05)
    with spawn(web, log=tmp_path / "requests.jsonl") as spawned:
        yield web, spawned


def test_everything_is_fetched_once_and_politely(quiet_web: tuple[Web, WebProcess], tmp_path: Path) -> None:
    """INV-3 from the server's side; nothing missing, nothing forbidden, nothing twice."""
    web, spawned = quiet_web
    out = tmp_path / "out"
    ran = crawl(spawned, out, "--scope", "domain", "--delay", "0.1", urls=web.seeds)
    assert (ran.code, ran.summary["stopped_by"]) == (0, "done")
    requested = [entry.url for entry in spawned.requests]
    assert web.check(set(requested), archived_urls(out)) == []
    assert {url for url, count in find_repeats(spawned.requests).items() if count > 1} == set()
    assert find_too_close(spawned.requests, 0.1, slack=0.002) == []
    assert find_too_many_at_once(spawned.requests, 1) == {}
    check_archive(out)


async def test_the_given_name_servers_are_asked(tmp_path: Path) -> None:
    web = Web(hosts=1, pages=3, faults=False)
    async with NameServer({"h0000.demo.test": (60, ["127.0.0.1"])}) as names, serve(web) as served:
        settings = CrawlSettings(
            out=str(tmp_path), delay=0.0, allow_private=True, dns_servers=(names.address,),
            connect_to=(f":80::{served.port}",),
        )  # fmt: skip
        await crawl_here(settings, web.seeds)
    assert names.questions["h0000.demo.test"] >= 1
    assert web.check(served.requested_urls, archived_urls(tmp_path)) == []
