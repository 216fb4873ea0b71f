"""The benchmarks run, on a small frontier and a small web, and calculate what they say."""

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from benchmarks import claimers, flatness, settings
from benchmarks.claimers import Claims
from benchmarks.crawl import polite
from benchmarks.crawl import report as crawl_report
from benchmarks.crawl.polite import Pacing
from benchmarks.crawl.race import environment
from benchmarks.crawl.tree import ContestantFailed
from benchmarks.kills import report as kills_report
from benchmarks.kills.contestants import CONTESTANTS, read_items
from benchmarks.kills.kill_runs import count_items, kill_until_finished
from benchmarks.kills.shop_server import Moment, draw_moments, serve_shop
from benchmarks.lab import Lab, PostgresLab, SqliteLab
from benchmarks.report import SECTIONS, show, write
from benchmarks.results import Results
from benchmarks.settings import Settings
from swath.backends.sqlite import connection
from tests.conftest import StartPostgres

ITEMS = 20_000


@pytest.fixture(params=["sqlite", "postgres"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    if request.param == "sqlite":
        return SqliteLab(tmp_path)
    start: StartPostgres = request.getfixturevalue("start_postgres")
    return PostgresLab(start(fsync="off", full_page_writes="off"))


def measured(part: str, lab: Lab, directory: Path) -> Results:
    machine = {"cpu": "", "cores": 2, "memory_gib": 1, "system": "", "load_before": 0}
    about = {"trial": True, "started": "", "machine": machine, "versions": {}, "commit": "", "command": ""}
    return Results(directory / f"{part}.json", {"part": part, "store": lab.store, "settings": {}, **about})


def test_claimers_are_measured_beside_the_floor(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claimers, "PROCESSES", 2)
    monkeypatch.setattr(claimers, "CLAIMERS", (20,))
    monkeypatch.setattr(claimers, "WARM_UP_SECONDS", 0.0)
    results = measured("claimers", lab, tmp_path / "results")
    claimers.measure(lab, Settings(items=ITEMS, seconds=0.3), results)  # a small part of the items
    (figure,) = results.figures
    assert figure["claimers"] == 20
    for side in ("swath", "floor"):
        assert 0 < figure[side]["p50_ms"] <= figure[side]["p99_ms"] <= figure[side]["max_ms"]
    page = tmp_path / "page.md"
    page.write_text("<!-- claimers:begin -->\n<!-- claimers:end -->\n")
    write(tmp_path / "results", page, SECTIONS)
    assert page.read_text().count("\n| 20 | swath |") == page.read_text().count("\n| 20 | floor |") == 1


def test_claim_reads_no_more_pages_of_a_larger_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """INV-8 by count, with a page cache that holds neither frontier."""
    monkeypatch.setattr(connection, "CACHE_KIB", 1024)
    monkeypatch.setattr(settings, "FLAT_SIZES", (40_000,))
    lab, sizes = SqliteLab(tmp_path), Settings(items=160_000, seconds=0.5)
    results = measured("flatness", lab, tmp_path / "results")
    try:
        flatness.measure(lab, sizes, results)
    finally:
        flatness.clean(lab, sizes)
    small, large, small_blocked, large_blocked = (figure["reads_p50"] for figure in results.figures)
    assert flatness.BATCH / 2 < large <= 1.25 * small
    assert flatness.BATCH < large_blocked <= 1.25 * small_blocked


def test_claimers_are_summarized_over_all_rounds() -> None:
    first = [Claims([0.010] * 98, 300), Claims([0.010], 100)]
    second = [Claims([], 300), Claims([0.5], 100)]
    summary = claimers.summarize([first, second], 2.0)
    assert summary["claims"] == 100
    assert summary["claims_per_s"] == 50
    assert summary["items_per_s"] == 400
    assert summary["p50_ms"] == pytest.approx(10)
    assert summary["max_ms"] == pytest.approx(500)
    assert summary["slowest"] == 0.5


@pytest.mark.parametrize(("lanes", "concurrent", "batch"), [(100_000, 500, 10), (1_000, 50, 10), (1_000, 500, 1)])
def test_claimers_leave_ready_lanes_to_each_other(lanes: int, concurrent: int, batch: int) -> None:
    assert claimers.choose_batch(lanes, concurrent) == batch


def test_polite_crawl_keeps_its_delay(tmp_path: Path) -> None:
    figure = polite.measure(tmp_path, hosts=20, delay=0.4, seconds=3, environment=environment())
    assert figure["errors"] == {}
    assert figure["shortest_gap_seconds"] >= 0.4
    assert figure["requests_per_s"] > 0
    assert figure["most_per_s"] == 50


def test_gap_runs_from_the_answer_to_the_next_request_of_the_host() -> None:
    pacing = Pacing()
    for host, heard, answered in (
        ("a", 1.0, 2.0),
        ("b", 2.5, 2.5),
        ("a", 12.5, 12.5),
        ("b", 13.5, 14.0),
        ("a", 22.75, 23),
    ):
        pacing.hear(host, heard)
        pacing.answer(host, answered)
    assert (pacing.requests, pacing.hosts, pacing.shortest) == (5, 2, 10.25)


def test_polite_rate_is_that_of_the_time_when_all_hosts_have_begun() -> None:
    samples = [[at / 4, 0 if at < 4 else 1_000 + 30 * (at - 4), 300, 10.25] for at in range(4 * 60)]
    rate, shortest = polite.evaluate(samples, hosts=300, delay=10.0, seconds=58.0)
    assert rate == pytest.approx(120)
    assert shortest == 10.25
    with pytest.raises(ContestantFailed, match="only 300 of 301 hosts"):
        polite.evaluate(samples, hosts=301, delay=10.0, seconds=58.0)
    with pytest.raises(ContestantFailed, match="too short"):
        polite.evaluate(samples[:40], hosts=300, delay=10.0, seconds=9.0)


def test_table_marks_a_gap_that_is_too_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = measured("crawl-polite", SqliteLab(tmp_path), tmp_path)
    figure = {"hosts": 3_000, "delay_seconds": 10.0, "crawl_seconds": 300.0, "requests_per_s": 299.0}
    figure |= {"most_per_s": 300.0, "pages": 1, "queued": 2, "rss_mb": 3.0, "cpu_seconds": 4.0, "seconds": 5.0}
    for gap in (9.9, 10.0):
        results.add({**figure, "shortest_gap_seconds": gap})
    show(tmp_path, crawl_report.SECTIONS)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| 3,000")]
    assert ["less than the delay" in line for line in lines] == [True, False]


async def test_a_killed_crawler_is_resumed_until_it_says_that_it_has_finished(tmp_path: Path) -> None:
    async with serve_shop(books=30) as server:
        moments = [Moment(5, 0.0), Moment(9, 0.01)]
        figure = await kill_until_finished(CONTESTANTS["swath"], server, moments, tmp_path)
    kept = {name: figure[name] for name in ("kills", "runs", "items", "lost", "doubled", "broken", "wrong", "says")}
    assert kept == {
        "kills": 2, "runs": 3, "items": 30, "lost": 0, "doubled": 0, "broken": 0, "wrong": 0, "says": "finished",
    }, figure["last_words"]  # fmt: skip


async def test_a_crawler_that_fails_is_given_up(tmp_path: Path) -> None:
    failing = replace(CONTESTANTS["swath"], command=[sys.executable, "-c", "raise SystemExit('no spider')"])
    async with serve_shop(books=20) as server:
        figure = await kill_until_finished(failing, server, [Moment(1, 0.0)], tmp_path)
    assert (figure["runs"], figure["failed_runs"], figure["lost"]) == (3, 3, 20)
    assert (figure["says"], figure["last_words"]) == ("exit code 1", "no spider\n")


async def test_items_are_counted_by_the_page_of_their_book(tmp_path: Path) -> None:
    async with serve_shop(books=20) as server:
        (first, one), (second, other), *_ = server.books.items()
    whole = [{**asdict(one), "url": first}, {**asdict(other), "_url": second, "url": None}]
    lines = [*map(json.dumps, [*whole, whole[0], {**whole[1], "price": "?"}]), '{"url": "http', "[]"]
    (tmp_path / "books.jsonl").write_text("\n".join(lines))
    counted = count_items(read_items(tmp_path / "books.jsonl"), server.books)
    assert counted == {"items": 4, "lost": 18, "doubled": 2, "broken": 2, "wrong": 1}
    assert count_items(read_items(tmp_path / "missing"), server.books)["lost"] == 20


def test_moments_of_a_seed_are_the_same_for_every_crawler() -> None:
    assert draw_moments(1, 5, books=1_000) == draw_moments(1, 5, books=1_000) != draw_moments(2, 5, books=1_000)
    assert all(1 <= moment.requests <= 400 for moment in draw_moments(1, 100, books=1_000))


def test_kill_table_adds_the_rounds_of_a_crawler_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = measured("kills", SqliteLab(tmp_path), tmp_path)
    figure = {"name": "it", "books": 50, "kills": 5, "doubled": 0, "broken": 1, "wrong": 1, "pages_again": 3}
    results.add({**figure, "lost": 2, "says": "finished", "failed_runs": 1})
    results.add({**figure, "lost": 0, "says": "exit code 1", "failed_runs": 3})
    show(tmp_path, kills_report.SECTIONS)
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| it |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:6] == ["10", "**2** of 100", "0", "**4**", "6"]
    assert cells[6] == "finished (1 of 2), exit code 1 (1 of 2); 4 runs failed"
