"""The tool tells the truth about a crawl: what became of every URL, and the exit code.

Real processes crawl hosts that cannot be reached, or only in part. `expect_report` knows what became of each URL; the
summary, `dead`, `explain`, `export`, `status` and the exit code must all say the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from swath.testing.web import Web, spawn
from swath.testing.web.expectation import PageState
from swath.testing.web.network import CrawlReport, NetworkPorts, build_hosts, expect_report
from tests.cli.conftest import run_swath
from tests.crawl.reporting import ReportedCrawl, read_summary

WEB = Web(hosts=1, pages=3, faults=False, slow_seconds=0.3)
HOSTS = build_hosts(WEB)
CONTACT = ("--contact", "crawl@example.org")
REACHED = ("fine.test", "slow.test", "https-only.test", "www.www-only.test")
UNREACHED = ("unknown.test", "no-address.test", "dns-failure.test", "refused.test", "silent.test", "hanging.test",
             "broken-tls.test", "http-only.test", "robots-silent.test")  # fmt: skip
REFUSING = ("robots-disallow.test", "robots-500.test")

sqlite_only = pytest.mark.parametrize("store", ["sqlite"], indirect=True)


@pytest.fixture(scope="module")
def ports() -> Iterator[NetworkPorts]:
    with serve_in_process() as found:
        yield found


@contextmanager
def serve_in_process() -> Iterator[NetworkPorts]:
    with spawn(WEB, network=True) as process:
        assert process.network is not None
        yield process.network


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/crawl.db"
    return str(request.getfixturevalue("database"))


@pytest.fixture
def reported(ports: NetworkPorts, tmp_path: Path, store: str) -> ReportedCrawl:
    return ReportedCrawl(ports, tmp_path / "crawl", store)


def urls(*names: str) -> list[str]:
    return [f"https://{name}/" for name in names]


def expect(*seeds: str, allow_private: bool = True, any_host: bool = False) -> CrawlReport:
    return expect_report(HOSTS, seeds, allow_private=allow_private, any_host=any_host)


@sqlite_only
def test_a_crawl_of_hosts_that_answer(reported: ReportedCrawl) -> None:
    seeds = urls(*REACHED)
    ran = reported.crawl(*seeds)
    reported.check(expect(*seeds), ran)
    reported.check_counts(expect(*seeds), ran)
    assert ran.code == 0


@sqlite_only
def test_a_crawl_of_hosts_that_refuse_crawlers(reported: ReportedCrawl) -> None:
    seeds = urls(*REFUSING, "fine.test")
    ran = reported.crawl(*seeds)
    reported.check(expect(*seeds), ran)
    reported.check_counts(expect(*seeds), ran)
    assert ran.code == 0


@sqlite_only
def test_a_crawl_of_which_every_page_is_refused_fetched_nothing(reported: ReportedCrawl) -> None:
    ran = reported.crawl(*urls(*REFUSING))
    reported.check(expect(*urls(*REFUSING)), ran)
    assert ran.code == 1
    assert "no page was fetched" in ran.err or "nothing was fetched" in ran.err


@sqlite_only
def test_a_host_that_vanishes(store: str, tmp_path: Path) -> None:
    seeds = urls("vanishing.test", "fine.test")
    with serve_in_process() as ports:  # it vanishes only once
        reported = ReportedCrawl(ports, tmp_path / "crawl", store)
        ran = reported.crawl(*seeds)
        reported.check(expect(*seeds), ran)
        reported.check_counts(expect(*seeds), ran)
    assert ran.code == 1


def test_every_host_that_cannot_be_reached_is_a_failure_with_its_cause(reported: ReportedCrawl) -> None:
    seeds = urls(*REACHED, *UNREACHED, *REFUSING)
    ran = reported.crawl(*seeds, *CONTACT)
    reported.check(expect(*seeds), ran)
    reported.check_counts(expect(*seeds), ran)
    assert ran.code == 1


@sqlite_only
def test_a_name_server_that_does_not_answer(reported: ReportedCrawl) -> None:
    seeds = urls("dns-silent.test", "fine.test")
    ran = reported.crawl(*seeds)
    reported.check(expect(*seeds), ran)


@sqlite_only
def test_links_to_hosts_that_cannot_be_reached(store: str, tmp_path: Path) -> None:
    with serve_in_process() as ports:
        reported = ReportedCrawl(ports, tmp_path / "crawl", store)
        ran = reported.crawl("https://hub.test/", "--scope", "any", *CONTACT)
    report = expect("https://hub.test/", any_host=True)
    reported.check(report, ran)
    reported.check_counts(report, ran)
    assert reported.export_pages()["https://refused.test/"]["referrer"] == "https://hub.test/"


def test_the_same_command_reports_the_same_again(reported: ReportedCrawl) -> None:
    seeds = urls("fine.test", "refused.test", "unknown.test", "robots-disallow.test")
    report = expect(*seeds)
    first, again = reported.crawl(*seeds), reported.crawl(*seeds)
    reported.check(report, again)
    for name in ("queued", "dead", "pages_in_all", "hosts_seen", "stopped_by"):
        assert read_summary(first)[name] == read_summary(again)[name], name
    assert first.code == again.code == 1


def test_dead_pages_are_fetched_after_retry_failed(reported: ReportedCrawl) -> None:
    seeds = urls("fine.test", "refused.test", "silent.test", "broken-tls.test")
    reported.crawl(*seeds)
    assert reported.crawl(*seeds, healed=True).code == 1  # what is dead stays dead until it is asked for
    ran = reported.crawl(*seeds, "--retry-failed", healed=True)
    assert (ran.code, reported.list_dead(), reported.read_status()["dead"]) == (0, {}, 0)
    assert {outcome.state for outcome in reported.read_outcomes().values()} == {PageState.FETCHED}
    assert len(reported.read_outcomes()) == 4 * 3


@sqlite_only
def test_retry_failed_reports_what_still_fails(reported: ReportedCrawl) -> None:
    seeds = urls("fine.test", "refused.test", "unknown.test")
    reported.crawl(*seeds)
    ran = reported.crawl(*seeds, "--retry-failed")
    reported.check(expect(*seeds), ran)
    assert set(read_summary(ran)["errors"]) == {"refused", "dns"}


def test_dead_pages_are_fetched_after_dead_retry(reported: ReportedCrawl) -> None:
    seeds = urls("fine.test", "refused.test")
    reported.crawl(*seeds)
    assert "1 dead item made ready again" in run_swath("dead", "retry", "--all", store=reported.store).out
    assert reported.crawl(*seeds, healed=True).code == 0
    assert reported.read_outcomes()["https://refused.test/"].state is PageState.FETCHED


@sqlite_only
def test_export_lists_only_failures_if_asked_to(reported: ReportedCrawl) -> None:
    seeds = urls("fine.test", "refused.test", "unknown.test", "robots-disallow.test")
    reported.crawl(*seeds)
    assert set(reported.export_pages("--failed")) == {"https://refused.test/", "https://unknown.test/"}


# bare host names


@sqlite_only
def test_bare_host_names_work_as_in_a_browser(reported: ReportedCrawl) -> None:
    seeds = ("fine.test", "http-only.test", "https-only.test", "www-only.test", "broken-tls.test")
    ran = reported.crawl(*seeds)
    reported.check(expect(*seeds), ran)
    assert ran.code == 0


@sqlite_only
def test_a_bare_host_name_is_an_error_only_if_every_form_fails(reported: ReportedCrawl) -> None:
    seeds = ("http-only.test", "refused.test", "unknown.test", "silent.test", "fine.test")
    ran = reported.crawl(*seeds)
    reported.check(expect(*seeds), ran)
    assert ran.code == 1


@sqlite_only
def test_a_dead_bare_host_name_names_the_cause_of_each_form(reported: ReportedCrawl) -> None:
    reported.crawl("refused.test")
    (reason,) = reported.list_dead().values()
    assert reason == (
        "refused: connection refused (https://refused.test/, http://refused.test/); "
        "dns: no such host (https://www.refused.test/)"
    )


def test_a_bare_host_name_that_comes_back_is_fetched_after_retry_failed(reported: ReportedCrawl) -> None:
    """Although its later forms, of a name that does not exist, were tried last."""
    reported.crawl("refused.test", "fine.test")
    back = ("--connect-to", f"refused.test:443:127.0.0.1:{reported.ports.https}")  # the first rule that matches counts
    ran = reported.crawl("refused.test", "fine.test", "--retry-failed", *back)
    assert reported.export_pages().get("https://refused.test/", {}).get("status") == 200
    assert (ran.code, reported.list_dead()) == (0, {})


# private addresses


def test_private_addresses_are_excluded_and_fetched_once_they_are_allowed(reported: ReportedCrawl) -> None:
    seeds = urls("private.test", "fine.test", "unknown.test")
    ran = reported.crawl(*seeds, private=False)
    reported.check(expect(*seeds, allow_private=False), ran)
    assert "--allow-private" in ran.err
    assert ran.code == 1


def test_adding_allow_private_opens_what_was_refused_for_it(reported: ReportedCrawl) -> None:
    seeds = urls("fine.test", "slow.test")
    reported.crawl(*seeds, private=False)
    ran = reported.crawl(*seeds)
    reported.check(expect(*seeds), ran)
    assert ran.code == 0


# what a person reads


@sqlite_only
def test_a_mistyped_host_name_is_named_at_once(reported: ReportedCrawl) -> None:
    ran = reported.crawl("https://unknown.test/", json=False)
    assert ran.code == 1
    line = next(line for line in ran.err.splitlines() if "https://unknown.test/" in line)
    assert "dns: no such host" in line
    assert "nothing was fetched" in ran.words
    assert "--retry-failed" in ran.words
    assert "complete" not in ran.out.lower()


@sqlite_only
def test_the_summary_counts_failures_and_names_the_next_steps(reported: ReportedCrawl) -> None:
    ran = reported.crawl(*urls("fine.test", "refused.test", "unknown.test", "robots-disallow.test"), json=False)
    assert ran.code == 1
    assert "2 failed" in ran.words
    for step in ("swath export", "--retry-failed"):
        assert step in ran.words
    rows = dict(line.split("\t", 1) for line in ran.out.splitlines() if "\t" in line)
    assert rows["not fetched"] == "robots 1"
    assert set(rows["errors"].split("  ")) == {"dns 1", "refused 1"}
    assert rows["left"] == "0 queued, 2 failed"


@sqlite_only
def test_each_seed_that_fails_is_named_and_a_link_that_fails_is_not(reported: ReportedCrawl) -> None:
    ran = reported.crawl("https://hub.test/", "https://unknown.test/", "--scope", "any", *CONTACT, json=False)
    assert "https://unknown.test/" in ran.err
    assert "https://refused.test/" not in ran.err
