"""Whole crawls of the demo web: what is fetched is what a perfect crawl would fetch, at the pace that was asked for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from swath.testing.web import Spawned, Web, repeats, spawn, too_close, too_many_at_once
from tests.crawl.archives import archived_urls, check_archive
from tests.crawl.driving import crawl


@pytest.fixture
def quiet_web(tmp_path: Path) -> Iterator[tuple[Web, Spawned]]:
    web = Web(seed=3, hosts=8, pages=120, trouble=False, patience=0.05)
    with spawn(web, log=tmp_path / "requests.jsonl") as spawned:
        yield web, spawned


def test_everything_is_fetched_once_and_politely(quiet_web: tuple[Web, Spawned], tmp_path: Path) -> None:
    """INV-3 from the server's side; nothing missing, nothing forbidden, nothing twice."""
    web, spawned = quiet_web
    out = tmp_path / "out"
    ran = crawl(spawned, out, "--scope", "domain", "--delay", "0.1", urls=web.seeds)
    assert (ran.code, ran.summary["stopped_by"]) == (0, "done")
    requested = [entry.url for entry in spawned.entries]
    assert web.check(set(requested), archived_urls(out)) == []
    assert {url for url, count in repeats(spawned.entries).items() if count > 1} == set()
    assert too_close(spawned.entries, 0.1, slack=0.002) == []
    assert too_many_at_once(spawned.entries, 1) == {}
    check_archive(out)
