"""One crawl through everything that goes wrong on the web, looked at from all sides."""

import asyncio
import csv
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyarrow import parquet
from warcio.archiveiterator import ArchiveIterator

import swath
from swath.cli.export import FIELDS
from swath.crawl import pacing, workspace
from swath.crawl.settings import CrawlSettings
from swath.crawl.urls.explain import explain_refusal
from swath.testing.web import (
    LoggedRequest,
    Requirement,
    Web,
    find_repeats,
    find_too_close,
    find_too_early,
    find_too_many_at_once,
    group_by_lane,
    spawn,
)
from swath.testing.web.request_log import HOST
from tests.crawl.archives import archived_urls, check_archive
from tests.crawl.driving import crawl_here, explained, swath_command

DELAY = 0.05
SLACK = 0.003  # between the server's clock readings and the client's
RETRIES = 2
HANDLED = {"handler", "handler_error", "repaired", "method", "key"}  # fields of pages in a crawl with handlers
LONG = "retry-after-odd.demo.test/century"  # asks to be left alone for longer than a test


@dataclass(frozen=True)
class Crawled:
    web: Web
    settings: CrawlSettings
    entries: list[LoggedRequest]
    stopped_by: str

    @property
    def out(self) -> Path:
        return self.settings.directory


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawled]:
    made = tmp_path_factory.mktemp("faults")
    web = Web(seed=5, hosts=2, pages=10, slow_seconds=0.2, bomb_megabytes=20, huge_bytes=2_000_000)
    with pytest.MonkeyPatch.context() as patch, spawn(web, log=made / "requests.jsonl") as spawned:
        # The pause of a failing host doubles; the test does not wait for that.
        patch.setattr(pacing, "MAX_DOUBLINGS", 0)
        patch.setattr(pacing, "MIN_FAILING_INTERVAL", DELAY)
        patch.setattr(pacing, "SLOW_RESPONSE", 60.0)
        settings = CrawlSettings(
            out=str(made / "out"), scope="domain", delay=DELAY, timeout=1.0, retries=RETRIES, max_size=1_000_000,
            connect_to=(spawned.connect_to,), allow_private=True, exclude=("/century",), max_pages_per_host=80,
        )  # fmt: skip
        summary, _ = asyncio.run(crawl_here(settings, [*web.seeds, "h0001.demo.test"]))  # falls back to http
        yield Crawled(web, settings, spawned.requests, summary.stopped_by)


def test_nothing_is_missing_and_nothing_forbidden(crawled: Crawled) -> None:
    requested = {entry.url for entry in crawled.entries}
    found = crawled.web.check(requested, archived_urls(crawled.out), retries=RETRIES)
    assert [line for line in found if LONG not in line] == []
    assert crawled.stopped_by == "done"


def test_pacing_holds_on_every_host(crawled: Crawled) -> None:
    """INV-3 and Retry-After from the server's side, whatever the hosts do; also where they close kept connections."""
    entries = crawled.entries
    assert find_too_close(entries, DELAY, slack=SLACK) == []
    assert find_too_many_at_once(entries, 1) == {}
    assert find_too_early(entries, slack=SLACK) == []
    asked_for = [entry for entry in entries if entry.retry_after is not None]
    assert len(asked_for) >= 4
    slow = [entry for entry in entries if entry.host == "robots-delay.demo.test"]
    assert len(slow) > 4
    assert find_too_close(slow, 2 * crawled.web.slow_seconds, slack=SLACK) == []


def test_robots_comes_before_anything_else_of_a_host(crawled: Crawled) -> None:
    firsts = {host: entries[0].target for host, entries in group_by_lane(crawled.entries, HOST).items()}
    # What another host's robots.txt redirects to is asked for as part of that.
    strays = {host: target for host, target in firsts.items() if target != "/robots.txt"}
    assert strays == {"robots-keeper.demo.test": "/for-others.txt"}


def test_robots_is_asked_for_again_where_it_failed(crawled: Crawled) -> None:
    """A robots.txt that fails is tried as often as a page, and then nothing of the host is asked for."""
    count = find_repeats(crawled.entries)
    for kind in ("500", "503", "closed", "cut", "timeout"):
        assert count[f"http://robots-{kind}.demo.test/robots.txt"] == 1 + RETRIES, kind
    assert any(entry.host == "robots-500-at-first.demo.test" and entry.target == "/" for entry in crawled.entries)


def test_pages_are_archived_with_their_status(crawled: Crawled) -> None:
    pages = _pages(crawled)
    wrong = []
    for url, expectation in crawled.web.expectations():
        if expectation.requirement is Requirement.MUST and expectation.retries <= RETRIES:
            listed = pages[url]["status"]
            if listed != expectation.status:
                wrong.append((url, expectation.status, listed))
    assert wrong == []


def test_archive_and_index_are_right(crawled: Crawled) -> None:
    check_archive(crawled.out)
    in_index = {
        json.loads(line.split(" ", 2)[2])["url"] for line in (crawled.out / "index.cdxj").read_text().splitlines()
    }
    assert in_index == archived_urls(crawled.out)


def test_duplicates_are_revisits_of_settled_records(crawled: Crawled) -> None:
    """They point to a record that is in the archive and has the same digest."""
    digests, revisits = {}, []
    for path in crawled.out.glob("*.warc.gz"):
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                header = record.rec_headers.get_header
                if record.rec_type == "response":
                    digests[header("WARC-Record-ID")] = (header("WARC-Target-URI"), header("WARC-Payload-Digest"))
                elif record.rec_type == "revisit":
                    refers = header("WARC-Refers-To-Target-URI")
                    revisits.append((header("WARC-Refers-To"), refers, header("WARC-Payload-Digest")))
    twins = [url for _, url, _ in revisits if "//twins-" in url]
    assert len(twins) >= 12
    assert [one for one in revisits if digests.get(one[0]) != one[1:]] == []


def test_exports_agree(crawled: Crawled, tmp_path: Path) -> None:
    for form in ("jsonl", "csv", "parquet", "cdxj"):
        ran = swath_command("export", str(tmp_path / f"pages.{form}"), "--out", str(crawled.out))
        assert ran.code == 0, ran.err
    lines = [json.loads(line) for line in (tmp_path / "pages.jsonl").read_text().splitlines()]
    assert {name for line in lines for name in line} == set(FIELDS) - HANDLED  # the columns of CSV and Parquet
    keys = [(line["url"], line.get("status"), line.get("offset")) for line in lines]
    assert len(keys) > 700
    rows = parquet.read_table(tmp_path / "pages.parquet").to_pylist()
    assert [(row["url"], row["status"], row["offset"]) for row in rows] == keys
    with (tmp_path / "pages.csv").open(newline="") as file:
        texts = [
            (row["url"], *(int(row[name]) if row[name] else None for name in ("status", "offset")))
            for row in csv.DictReader(file)
        ]
    assert texts == keys
    assert (tmp_path / "pages.cdxj").read_bytes() == (crawled.out / "index.cdxj").read_bytes()


def test_every_excluded_url_names_its_rule(crawled: Crawled) -> None:
    store = crawled.settings.store_url
    ran = swath_command("explain", "http://robots-some.demo.test/deep/b.gif", "--store", store)
    assert (ran.code, "Disallow: /*.gif$" in ran.out) == (0, True), ran.out
    shut = asyncio.run(explained(crawled.settings, "http://robots-500.demo.test/"))
    assert shut["result"] == {"excluded": "robots", "rule": "robots.txt answered 500"}


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("http://www1.outside.example/", "scope"),
        (f"http://{LONG}", "exclude"),
        ("http://trap-filters.demo.test/filter?color=red&color=blue&color=red&color=blue&color=red", "query-repeats"),
        ("http://trap-segments.demo.test/maze/left/right/left/right/left/right/", "path-repeats"),
        ("http://trap-sessions.demo.test/shop/cart?sid=0000000001234567", "spelling"),
        ("http://h0000.demo.test/nobody-links-here", "unlinked"),
    ],
)  # fmt: skip
async def test_a_url_that_was_never_added_has_its_reason(crawled: Crawled, url: str, rule: str) -> None:
    async with swath.open(crawled.settings.store_url, create=False) as frontier:
        known = (await frontier.facts([workspace.SETTINGS_FACT]))[workspace.SETTINGS_FACT]
        assert (await frontier.explain(url)).state == "unknown"
    assert explain_refusal(url, known, year=2026)[0] == rule


def test_explain_says_why_a_url_was_never_added(crawled: Crawled) -> None:
    ran = swath_command("explain", f"http://{LONG}", "--store", crawled.settings.store_url, "--json")
    said = json.loads(ran.out)
    assert (ran.code, said["state"], said["refused"]) == (1, "unknown", "exclude"), said
    assert "an --exclude pattern matches it" in said["sentence"]


def _pages(crawled: Crawled) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for path in crawled.out.glob("pages-*.jsonl.gz"):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            page = json.loads(line)
            found[page["url"]] = page
    return found
