"""What the jobs say of their progress: each text, for a progress that is made up."""

import dataclasses
from collections import Counter
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from swath import Checkpoint, CheckReport, HandlerError, Mismatch, RunState, Status
from swath.cli import backfill_view, crawl_view, scan_view
from swath.cli.backfill import parse_key
from swath.cli.db import summarize_check
from swath.cli.scan_progress import describe_read, describe_records, describe_share, list_progress
from swath.crawl.settings import CrawlSettings
from swath.scan.counts import Counts
from swath.scan.progress import ScanProgress
from swath.scan.report import ScanReport
from swath.scan.settings import ScanSettings

NOW = datetime(2030, 1, 1, tzinfo=UTC)
STATUS = Status(
    ready=2, delayed=1, claimed=1, done=4, visits=4, dead=3, lanes=5, inbox=1, paused=False, min_interval=1.0,
    concurrency=1, max_attempts=5, checkpoints=[Checkpoint(0, 3, 1, 8)], next_ready_at=NOW, now=NOW,
)  # fmt: skip
ERROR = HandlerError("ValueError: x", "spider.py:3", 2, "https://a.example/")


def scanned(share: float | None = None, size: dict[str, Any] | None = None, **counts: Any) -> ScanProgress:
    return ScanProgress(STATUS, Counts(**counts), share, size or {})


def samples(share: float, seconds: float, latest: float = 0.0) -> dict[str, Any]:
    earlier = {"at": (NOW - timedelta(seconds=seconds)).isoformat(), "share": share}
    return {"earlier": earlier, "latest": {"at": (NOW - timedelta(seconds=latest)).isoformat(), "share": share}}


# scan


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (scanned(records=5), "5 records"),
        (scanned(records=5, size={"records": 1}), "5 of 1 record"),
        (scanned(records=5, size={"about_records": 2_000}), "5 of about 2,000 records"),
        (scanned(records=5, size={"about_records": 5}), "5 records"),
        (scanned(records=5, size={"about_records": 6}, share=1.0), "5 records"),
    ],
)
def test_the_number_of_records(progress: ScanProgress, text: str) -> None:
    assert describe_records(progress, noun="record") == text
    assert describe_records(progress) == text.removesuffix("s").removesuffix(" record")


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (scanned(), ""),
        (scanned(bytes=1_500), "1.5 kB"),
        (scanned(bytes=1_500, size={"bytes": 3_000}), "1.5 kB of 3.0 kB"),
        (scanned(bytes=9_000, compressed=1_500, size={"compressed": 3_000}), "1.5 kB of 3.0 kB compressed"),
    ],
)
def test_the_bytes_that_were_read(progress: ScanProgress, text: str) -> None:
    assert describe_read(progress) == text


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (scanned(0.25), "25.0%"),
        (scanned(), "unknown"),
        (
            scanned(records=3, skipped=1, listed=9, folders_found=1, folders_listed=1, size={"listing": True}),
            "unknown while 1 directory is not listed; 4 of 9 listed entries are checked",
        ),
        (
            scanned(folders_found=2, folders_listed=1, listed=1, size={"listing": True}),
            "unknown while 2 directories are not listed; 0 of 1 listed entries are checked",
        ),
        (scanned(folders_found=1, folders_listed=2, size={"listing": True}), "unknown"),
    ],
)
def test_the_share_of_the_source(progress: ScanProgress, text: str) -> None:
    assert describe_share(progress) == text


@pytest.mark.parametrize(
    ("share", "given", "claimed", "left"),
    [
        (0.5, samples(0.25, 10), 1, 20.0),
        (0.5, samples(0.25, 10), 0, None),  # no process scans
        (0.5, samples(0.5, 10), 1, None),  # nothing was gained
        (0.5, samples(0.25, 0.5), 1, None),  # too short to say
        (0.5, samples(0.25, 1), 1, 2.0),
        (0.5, samples(0.25, 100, latest=60), 1, 200.0),
        (0.5, samples(0.25, 100, latest=61), 1, None),
        (None, samples(0.25, 10), 1, None),
        (0.5, None, 1, None),
    ],
)
def test_the_time_that_a_scan_still_takes(share: float | None, given: Any, claimed: int, left: float | None) -> None:
    status = dataclasses.replace(STATUS, claimed=claimed)
    progress = ScanProgress(status, Counts(), share, {}, given)
    assert progress.seconds_left == (None if left is None else pytest.approx(left))
    names = [name for name, _ in list_progress(progress, rate=3)]
    assert names == ["records", "share", "time left"][: 3 if left else 2]


def test_a_line_and_a_panel_of_a_scan() -> None:
    progress = dataclasses.replace(
        scanned(0.5, {"bytes": 4_000}, records=1_234, bytes=2_000, opened=Counter(a=3, b=1)), samples=samples(0.25, 10)
    )
    assert scan_view.format_line(None, 0.0, [("paused", "why")]) == "no progress yet, paused: why"
    line = scan_view.format_line(progress, 1_500.4, [("paused", "why")], unsettled=1)
    assert line == (
        "1,234 records, 1,500/s, 2.0 kB of 4.0 kB, 50.0%, about 20 s left, 1 record not settled yet, 5 slices waiting, "
        "open: a 3  b 1, paused: why"
    )
    assert ", share unknown, 5 slices waiting, open: none" in scan_view.format_line(scanned(), 0.0)
    settings = ScanSettings(source="x.jsonl", out="f.jsonl", check="a:b")
    job: Any = SimpleNamespace(progress=progress, unsettled=1, settings=settings)
    shown = render(scan_view.make_progress_panel(job, 7.0, [RunState("paused", "by hand", 1.0)], [ERROR]))
    for part in (
        "records 1,234 7/s now", "not settled 1 record in running slices", "slices 4 done, 5 waiting, 3 dead",
        "open a 3 b 1", "errors ValueError: x (spider.py:3), 2 times, last at https://a.example/", "paused: by hand",
        "━",
    ):  # fmt: skip
        assert part in shown, part
    assert "━" not in render(scan_view.make_progress_panel(SimpleNamespace(progress=None, settings=settings), 0.0))  # type: ignore[arg-type]


def render(shown: Any) -> str:
    console = Console(width=160, force_terminal=False)
    with console.capture() as captured:
        console.print(shown)
    return " ".join(captured.get().replace("│", " ").split())


def test_the_rate_of_a_scan_is_that_of_the_last_seconds() -> None:
    rate = scan_view.Rate()
    for moment, records, expected in [
        (0.0, 0, 0.0), (0.0, 5, 0.0), (2.0, 20, 10.0), (10.0, 100, 10.0), (20.0, 400, 30.0), (30.0, 400, 0.0),
        (31.0, 390, 0.0),
    ]:  # fmt: skip
        job: Any = SimpleNamespace(progress=scanned(records=records - 2, rechecked=1), unsettled=1)
        rate.record(job, moment)
        assert rate.current == pytest.approx(expected), moment
    rate.record(SimpleNamespace(progress=None), 40.0)  # type: ignore[arg-type]


def report(**changes: Any) -> ScanReport:
    settings = changes.pop("settings", ScanSettings(source="x.jsonl", out="f.jsonl", check="a:b"))
    values: dict[str, Any] = {
        "counts": Counts(records=1), "outputs": 1, "began": "then", "ended": None, "round": 0, "status": STATUS,
        "examples": {}, "length": 0, **changes,
    }  # fmt: skip
    return ScanReport(settings=settings, **values)


DONE = dataclasses.replace(STATUS, ready=0, delayed=0, claimed=0, inbox=0, dead=0)


@pytest.mark.parametrize(
    ("changes", "prepared", "text"),
    [
        ({}, (0, False), "the scan of {} starts (progress is kept in f.jsonl.swath.db)"),
        ({}, (0, True), "the scan of {} resumes: 1 record so far (progress is kept in f.jsonl.swath.db)"),
        ({}, (2, True), "recheck 2 of the scan of {}: 5 slices of records with open findings"),
        ({"ended": "now", "status": DONE}, (0, True), "the scan of {} is complete and does not run again. Use --fresh"),
    ],
)
def test_the_start_of_a_scan(changes: Any, prepared: tuple[int, bool], text: str) -> None:
    found = report(**changes)
    given: Any = SimpleNamespace(round=prepared[0], resumed=prepared[1])
    line = scan_view.describe_start(given, found)
    assert line.startswith(text.format(found.settings.get_identity()["source"]))


def test_the_start_of_a_scan_with_a_store_of_its_own() -> None:
    settings = ScanSettings(source="x.jsonl", out="f.jsonl", check="a:b", store="sqlite:///s.db")
    given: Any = SimpleNamespace(round=0, resumed=False)
    assert scan_view.describe_start(given, report(settings=settings)).endswith("x.jsonl starts")
    complete = report(settings=settings, ended="now", status=DONE)
    assert "Use another --out and --store to start over" in scan_view.describe_start(given, complete)


def test_the_report_of_a_scan() -> None:
    counts = Counts(records=2_000, bytes=3_000, skipped=1, rechecked=2, opened=Counter(a=3, b=1), fixed=Counter(a=2))
    shown = dict(
        scan_view.list_facts(
            report(counts=counts, outputs=3, round=1, examples={"a": [("k", "why"), ("l", "")]}, ended="now"), 1.5
        )
    )
    assert shown["records"] == "2,000, 3.0 kB, 1 other skipped"
    assert (shown["from"], shown["to"], shown["dead"]) == ("then", "now", "3 slices")
    assert shown["checkpoint"] == "not at the end: 3 of 8 slices"
    assert (shown["rechecks"], shown["fixed"]) == ("1, 2 records checked again", "a 2")
    assert (shown["open"], shown["  a"], shown["  b"]) == ("4", "3   k: why; l", "1")
    assert (shown["findings"], shown["time"]) == ("f.jsonl, and 2 more by other processes", "1.5 s")
    plain = dict(scan_view.list_facts(report(), 0.0))
    assert (plain["records"], plain["to"], plain["open"], plain["findings"]) == ("1", "not complete", "none", "f.jsonl")
    assert not {"rechecks", "fixed", "against"} & plain.keys()
    at_end = dataclasses.replace(STATUS, checkpoints=[Checkpoint(0, 8, 0, 8)])
    assert dict(scan_view.list_facts(report(status=at_end), 0.0))["checkpoint"] == "at the end: 8 of 8 slices"


@pytest.mark.parametrize(
    ("changes", "text", "clean"),
    [
        ({"ended": "now", "status": DONE}, "everything was scanned, and no finding is open", True),
        ({"ended": "now", "status": DONE, "counts": Counts(opened=Counter(a=1))}, "everything was scanned", False),
        ({"ended": "now", "status": dataclasses.replace(DONE, dead=1)}, "everything was scanned", False),
        ({"ended": None, "status": DONE}, "stopped", False),
        ({"ended": "now"}, "stopped", False),
    ],
)
def test_the_end_of_a_scan(changes: Any, text: str, clean: bool) -> None:
    found = report(**changes)
    assert (scan_view.describe_end(found), found.clean) == (text, clean)


# crawl


def test_a_line_and_a_panel_of_a_crawl() -> None:
    settings = CrawlSettings(out="big")
    stats = {"pages": 1_200, "rate": 2.04, "in_flight": 3, "bytes": 2_500, "items": {"Book": 1}, "errors": {"dns": 2}}
    line = crawl_view.format_line(settings, stats, STATUS, [RunState("paused", "by hand", 1.0)], [ERROR])
    assert line.startswith("1,200 pages, 2.0/s, 4 queued, 5 hosts seen, 3 in flight, 2.5 kB, items: ")
    assert "errors: " in line
    assert "paused: by hand" in line
    assert "ValueError: x (spider.py:3), 2 times" in line
    assert crawl_view.format_line(settings, {}, None) == "0 pages, 0.0/s, 0 in flight, 0 bytes"
    shown = render(crawl_view.build_panel(settings, {**stats, "seconds": 100.0, "workers": 9}, STATUS, (), [ERROR]))
    for part in ("1,200 2.0/s now, 12.0/s overall", "4 (1 waiting for a retry), 2 s at this rate", "ValueError: x"):
        assert part in shown, part
    assert "at this rate" not in render(crawl_view.build_panel(settings, {"rate": 0.09}, STATUS))
    assert "at this rate" in render(crawl_view.build_panel(settings, {"rate": 0.1}, STATUS))


def test_the_frontier_of_a_crawl_in_json() -> None:
    assert crawl_view.frontier_to_json(None, 7) == {
        "queued": None, "hosts_seen": None, "pages_in_all": None, "dead": None,
    }  # fmt: skip
    assert crawl_view.frontier_to_json(STATUS, 7) == {"queued": 4, "hosts_seen": 5, "pages_in_all": 7, "dead": 3}
    assert crawl_view.max_lanes_with_urls(STATUS) == 5
    assert crawl_view.max_lanes_with_urls(dataclasses.replace(STATUS, lanes=9)) == 5


@pytest.mark.parametrize(
    ("status", "resumed", "added", "delay", "text"),
    [
        (STATUS, True, 2, 1.5, "resumes with 5 URLs, 2 new seeds, one page every 1.5 s from each host"),
        (STATUS, False, 0, 0.0, "starts, no delay between pages"),
        (dataclasses.replace(DONE, dead=1), True, 0, 1.0, "has no URLs left to fetch"),
        (DONE, True, 0, 1.0, "is complete: there are no URLs to fetch"),
    ],
)
def test_the_start_of_a_crawl(status: Status, resumed: bool, added: int, delay: float, text: str) -> None:
    workspace: Any = SimpleNamespace(settings=CrawlSettings(out="big", delay=delay), resumed=resumed, added=added)
    assert crawl_view.format_start(workspace, status) == f"the crawl in big {text}"


# backfill


def backfilled(**changes: Any) -> Any:
    stats = SimpleNamespace(
        rows=changes.pop("rows", 0), changed=0, slices=changes.pop("slices", 0), longest=0.5,
        overruns=changes.pop("overruns", Counter()), rate=changes.pop("rate", 0.0),
    )  # fmt: skip
    progress = SimpleNamespace(key=[7, "b"], upto=[9, "z"], share=0.25, rows=100, dead=0, complete=False)
    progress.__dict__.update(changes)
    return SimpleNamespace(
        stats=stats, progress=progress, sizer=SimpleNamespace(size=1), monitor=SimpleNamespace(errors=[]),
        states=[], settings=SimpleNamespace(table="users", store_url="sqlite:///w.db"),
    )  # fmt: skip


def test_the_facts_of_a_backfill() -> None:
    job = backfilled(rows=2_000, slices=2, rate=50.0, dead=1, overruns=Counter({"time": 2}))
    assert dict(backfill_view.list_facts(job)) == {
        "rows": "2,000 processed, 0 changed by this run   50/s",
        "slices": "2, now of about 1 row; the longest took 0.5 s",
        "shortened": "time 2", "covered": 'up to [7, "b"]   25.0%', "time left": "about 6 s", "dead": "1 slice",
    }  # fmt: skip
    after = dict(backfill_view.list_facts(job, seconds=10.0))
    assert (after["rows"], after["slices"]) == (
        "2,000 processed, 0 changed by this run   200/s", "2; the longest took 0.5 s",
    )  # fmt: skip
    idle = backfilled(share=None)
    assert list(dict(backfill_view.list_facts(idle, seconds=1.0))) == ["rows", "covered"]
    assert "━" not in render(backfill_view.make_progress_panel(idle))
    assert "━" in render(backfill_view.make_progress_panel(job))


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({"rate": 50.0}, 6.0), ({"rate": 0.0}, None), ({"rate": 50.0, "share": 1.0}, None),
        ({"rate": 50.0, "share": 0.0}, None), ({"rate": 50.0, "rows": 0}, None), ({"rate": 50.0, "share": None}, None),
    ],
)  # fmt: skip
def test_the_time_that_a_backfill_still_takes(changes: dict[str, Any], left: float | None) -> None:
    job = backfilled(rate=changes.pop("rate"))
    job.progress.__dict__.update(changes)
    assert backfill_view.estimate_seconds_left(job, job.progress) == left


def test_a_key_of_several_columns_on_the_command_line() -> None:
    assert parse_key("7") == ["7"]
    assert parse_key('[7, "b", null, 1.5]') == ["7", "b", "null", "1.5"]
    with pytest.raises(Exception, match=r"'\[7' is not JSON; write a key of two columns"):
        parse_key("[7")
    assert (backfill_view.format_key(None), backfill_view.format_key((7,))) == ("the start", "7")


def test_the_result_of_a_check() -> None:
    found = [Mismatch(0, "x"), Mismatch(1, "y")]
    assert summarize_check(CheckReport(3, items=5, mismatches=found)) == "2 errors in 3 partitions: please report this"
    assert summarize_check(CheckReport(3, items=5)) == "ok: counted 5 items in 3 partitions, and every counter is right"
    assert summarize_check(CheckReport(3, items=5, skipped=[2])) == (
        "ok: counted 5 items in 2 partitions, and every counter is right; skipped 1 partition that kept changing: run "
        "swath pause first to check all"
    )
