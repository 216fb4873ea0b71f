"""What the tool says about a crawl of the network, in the same words as `expect_report`."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swath.testing.web.expectation import PageState
from swath.testing.web.network import CrawlReport, NetworkPorts, PageOutcome
from tests.cli.conftest import Result, run_swath

# Short, because the network fails on purpose.
QUICK = ("--delay", "0s", "--retries", "0", "--timeout", "2s")


@dataclass(frozen=True, slots=True)
class ReportedCrawl:
    """A directory and a frontier, and what the commands say about them."""

    ports: NetworkPorts
    out: Path
    store: str

    def crawl(self, *words: str, healed: bool = False, private: bool = True, json: bool = True) -> Result:
        """Run `swath crawl` on the network; `healed` without its faults, `private` with --allow-private."""
        reach = self.ports.healed_options if healed else self.ports.crawl_options
        options = [*reach, *QUICK, *(["--allow-private"] if private else []), *(["--json"] if json else [])]
        return run_swath("crawl", *words, *options, "--out", str(self.out), "--store", self.store)

    def list_dead(self) -> dict[str, str]:
        """Return the dead URLs and why they are dead, as `swath dead` says."""
        listed = run_swath("dead", "--limit", "0", "--json", store=self.store).json_lines()
        return {item["key"]: item["reason"] for item in listed}

    def export_pages(self, *options: str) -> dict[str, dict[str, Any]]:
        """Return the last line of each URL in the page list, as `swath export` says."""
        lines = run_swath("export", *options, "--out", str(self.out), store=self.store).json_lines()
        return {line["url"]: line for line in lines if line["kind"] != "robots"}

    def explain(self, url: str) -> dict[str, Any]:
        return dict(run_swath("explain", url, "--json", store=self.store).json())

    def read_status(self) -> dict[str, Any]:
        return dict(run_swath("status", "--json", store=self.store).json())

    def read_outcomes(self) -> dict[str, PageOutcome]:
        """Return what became of each URL, by its line in the page list."""
        return {url: read_outcome(page) for url, page in self.export_pages().items()}

    def check(self, report: CrawlReport, ran: Result) -> None:
        """Compare everything that the tool says with a true report. `ran` is a run that completed the crawl."""
        assert self.read_outcomes() == dict(report.outcomes), ran.err
        assert {url: find_kind(why) for url, why in self.list_dead().items()} == {
            url: report.outcomes[url].reason for url in report.select_urls(PageState.FAILED)
        }
        self.check_summary(report, ran)
        status = self.read_status()
        assert (status["dead"], status["waiting"]) == (report.count(PageState.FAILED), 0)
        assert status["done"] == len(report.outcomes) - status["dead"]
        for state in PageState:
            for url in report.select_urls(state)[:1]:
                self.check_explanation(url, report)

    def check_summary(self, report: CrawlReport, ran: Result) -> None:
        summary = read_summary(ran)
        assert summary["stopped_by"] == "done"
        assert (summary["queued"], summary["dead"]) == (0, report.count(PageState.FAILED))
        assert summary["pages_in_all"] == report.count(PageState.FETCHED)
        assert ran.code == report.exit_code, ran

    def check_counts(self, report: CrawlReport, ran: Result) -> None:
        """Compare the counts of a first run, which are those of the whole crawl."""
        summary = read_summary(ran)
        reasons = Counter(report.outcomes[url].reason for url in report.select_urls(PageState.EXCLUDED))
        assert summary["refused"] == dict(reasons)
        failed = {report.outcomes[url].reason for url in report.select_urls(PageState.FAILED)}
        counted = Counter({find_kind(name): count for name, count in summary["errors"].items()})
        assert failed <= counted.keys(), summary["errors"]
        assert summary["pages"] == report.count(PageState.FETCHED)

    def check_explanation(self, url: str, report: CrawlReport) -> None:
        """Compare what `swath explain` says about a URL. It explains the form that a bare host name was crawled as."""
        explained = self.explain(url)
        final = url
        while (outcome := report.outcomes[final]).state is PageState.FALLBACK:
            final = outcome.reason
        assert explained["key"] == final
        assert url in explained["sentence"]
        result = explained.get("result") or {}
        match outcome.state:
            case PageState.FAILED:
                assert (explained["state"], find_kind(explained["reason"])) == ("dead", outcome.reason)
                assert outcome.reason in explained["sentence"]
            case PageState.EXCLUDED:
                assert (explained["state"], result["excluded"]) == ("done", outcome.reason)
            case _:
                assert (explained["state"], result["status"]) == ("done", 200)


def read_outcome(page: Mapping[str, Any]) -> PageOutcome:
    """Return what a line of the page list says about a page."""
    if "failed" in page:
        assert page["attempts"] >= 1, page
        return PageOutcome(PageState.FAILED, find_kind(page["failed"]))
    if "excluded" in page:
        assert page["rule"], page
        return PageOutcome(PageState.EXCLUDED, page["excluded"])
    if "fallback" in page:
        return PageOutcome(PageState.FALLBACK, page["fallback"])
    assert page["status"] == 200, page
    return PageOutcome(PageState.FETCHED)


def find_kind(reason: str) -> str:
    """Return the kind of a failure, without what only says when a timeout occurred."""
    kind = reason.partition(":")[0]
    return "timeout" if kind.startswith("timeout-") else kind


def read_summary(ran: Result) -> dict[str, Any]:
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert lines, ran
    assert lines[-1]["event"] == "summary"
    return dict(lines[-1])
