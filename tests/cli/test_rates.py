"""Rates and shares that the panels, the progress lines and --json show."""

import time
from collections.abc import Callable
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console, RenderableType

from swath.backfill.progress import Progress
from swath.backfill.stats import RATE_SECONDS, BackfillStats
from swath.cli import backfill_view, crawl_view, scan_progress, scan_view
from swath.crawl.settings import CrawlSettings
from swath.crawl.stats import RATE_WINDOW, CrawlStats
from swath.scan.counts import Counts
from swath.scan.progress import ScanProgress
from tests.cli.test_crawl import status

Clock = Callable[[float], None]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Sets the clock."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def set_to(seconds: float) -> None:
        now[0] = seconds

    return set_to


def read_words(panel: RenderableType) -> str:
    console = Console(width=120, file=StringIO(), record=True)
    console.print(panel)
    return " ".join(console.export_text().replace("│", " ").split())


# backfill


def make_backfill(clock: Clock) -> Any:
    """A backfill that did 30 rows in 3 seconds; a quarter of the table is covered."""
    stats = BackfillStats()
    for second in (1, 2, 3):
        clock(second)
        stats.record_slice(10, 4, 0.5)
    progress = Progress({}, ("250",), ("1000",), 100, open=1, dead=0, complete=False, share=0.25)
    return SimpleNamespace(
        stats=stats, progress=progress, states=(), throttle=None, sizer=SimpleNamespace(size=10),
        settings=SimpleNamespace(table="users", store_url="sqlite:///app.db"), monitor=SimpleNamespace(errors=()),
    )  # fmt: skip


def test_the_rate_of_a_backfill_is_over_the_last_seconds(clock: Clock) -> None:
    stats = make_backfill(clock).stats
    assert stats.rate == 10.0
    clock(6)
    assert stats.rate == 5.0, "it has run for six seconds"
    clock(RATE_SECONDS + 2)
    assert stats.rate == 20 / RATE_SECONDS, "the first slice is too long ago"
    clock(RATE_SECONDS + 4)
    assert stats.rate == 0.0


def test_a_backfill_shows_its_rate_and_its_share(clock: Clock) -> None:
    job = make_backfill(clock)
    shown = read_words(backfill_view.make_progress_panel(job))
    for text in (shown, " ".join(backfill_view.format_line(job).split())):
        assert "30 processed, 12 changed by this run 10/s" in text
        assert "up to 250 25.0%" in text
        assert "about 30 s" in text, "300 rows are left, 10 per second"
    told = backfill_view.to_json(job)
    assert (told["rows"], told["changed"], told["rate"], told["share"]) == (30, 12, 10.0, 0.25)
    assert (told["covered"], told["seconds_left"]) == (("250",), 30.0)
    assert backfill_view.to_json(job, seconds=60.0)["rate"] == 0.5, "of the whole run"


# scan


def test_the_rate_of_a_scan_is_over_the_last_seconds() -> None:
    rate = scan_view.Rate()
    job: Any = SimpleNamespace(progress=None, unsettled=0)
    rate.record(job, 0.0)
    assert rate.current == 0.0
    for moment, records, rechecked, unsettled, expected in [
        (1.0, 0, 0, 0, 0.0),
        (2.0, 50, 0, 10, 60.0),
        (3.0, 80, 20, 0, 50.0),
        (11.5, 100, 20, 0, (120 - 60) / 9.5),  # the first sample is too long ago
        (12.0, 50, 0, 0, 0.0),  # an item was given back
    ]:
        counts = Counts(records=records, rechecked=rechecked)
        job = SimpleNamespace(progress=SimpleNamespace(counts=counts), unsettled=unsettled)
        rate.record(job, moment)
        assert rate.current == pytest.approx(expected)


def test_a_scan_shows_its_rate_and_its_share() -> None:
    progress = ScanProgress(status(ready=3), Counts(records=250, bytes=2_500), 0.25, {"records": 1_000})
    settings = SimpleNamespace(store_url="sqlite:///f.db", get_identity=lambda: {"source": "all.parquet"})
    job: Any = SimpleNamespace(progress=progress, unsettled=7, settings=settings)
    shown = read_words(scan_view.make_progress_panel(job, 12.4))
    assert "records 250 of 1,000 12/s now" in shown
    assert "share 25.0%" in shown
    assert "not settled 7 records in running slices" in shown
    assert "250 of 1,000 records, 12/s, 2.5 kB, 25.0%, " in scan_view.format_line(progress, 12.4)
    told = scan_progress.progress_to_json(progress)
    assert (told["records"], told["total_records"], told["share"]) == (250, 1_000, 0.25)


# crawl


def test_the_rate_of_a_crawl_is_over_the_last_seconds() -> None:
    stats = CrawlStats(began=0.0)
    assert stats.rate(0.0) == 0.0
    stats.pages = 20
    assert stats.rate(4.0) == 5.0
    stats.pages = 26
    assert stats.rate(RATE_WINDOW + 1) == 6 / (RATE_WINDOW - 3), "the first sample is too long ago"


def test_a_crawl_shows_its_rates(clock: Clock) -> None:
    clock(10)
    stats = CrawlStats(began=0.0, workers=8, pages=50, bytes=4_000, in_flight=3).as_dict() | {"rate": 12.0}
    shown = read_words(crawl_view.build_panel(CrawlSettings(out="crawl"), stats, status(ready=600, lanes=4)))
    assert "pages 50 12.0/s now, 5.0/s overall" in shown
    assert "queued 600, 50 s at this rate" in shown
    assert "in flight 3 of 8" in shown
    assert "received 4.0 kB in 10 s" in shown
    assert crawl_view.format_line(CrawlSettings(out="crawl"), stats, None).startswith("50 pages, 12.0/s, 3 in flight")
