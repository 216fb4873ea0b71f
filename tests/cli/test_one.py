"""Where there is one of something, no line speaks of several."""

import re
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from swath import Checkpoint, CheckReport, Mismatch, Status
from swath.cli import crawl_view, scan_view
from swath.cli.db import summarize_check
from swath.crawl.settings import CrawlSettings
from swath.crawl.workspace import Workspace
from swath.scan.counts import Counts
from swath.scan.progress import ScanProgress
from tests.cli.conftest import run_swath

NOW = datetime(2030, 1, 1, tzinfo=UTC)
STATUS = Status(
    ready=1, delayed=0, claimed=0, done=0, visits=1, dead=1, lanes=1, inbox=0, paused=False, min_interval=1.0,
    concurrency=1, max_attempts=1, checkpoints=[Checkpoint(0, 0, 0, 1)], next_ready_at=NOW, now=NOW,
)  # fmt: skip
CRAWL = CrawlSettings(out="crawl", workers=1)
START = Workspace(CRAWL, frontier=None, added=1, changes=[], resumed=True)  # type: ignore[arg-type]


def several(text: str) -> list[str]:
    return re.findall(r"(?<![\d.,])1 (?!ms\b)\w+s\b", text)


@pytest.mark.parametrize(
    "text",
    [
        crawl_view.format_start(START, STATUS),
        crawl_view.format_line(CRAWL, {"pages": 1}, STATUS),
        crawl_view.explain_limit(CRAWL, {"workers": 1}, STATUS) or "",
        scan_view.format_line(ScanProgress(STATUS, Counts(records=1), None, {"records": 1}), rate=1.0),
        summarize_check(CheckReport(1, items=1)),
        summarize_check(CheckReport(2, items=1, skipped=[1])),
        summarize_check(CheckReport(1, items=1, mismatches=[Mismatch(0, "…")])),
    ],
)
def test_in_what_is_shown(text: str) -> None:
    assert re.search(r"\b1 ", text)
    assert several(text) == []


def test_in_what_commands_say(tmp_path: Path) -> None:
    table = tmp_path / "app.db"
    with sqlite3.connect(table) as connection:
        connection.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute("INSERT INTO users (name) VALUES ('a')")
    connection.close()
    backfill = ("backfill", "--db", f"sqlite:///{table}", "--table", "users", "--set", "name = 'b'", "--batch", "1")
    scan = ("scan", "--source", f"sqlite:///{table}#users", "--check", "tests.scan.checks:nothing")
    frontier = f"sqlite:///{tmp_path}/work.db"
    for args in (
        (*backfill, "--dry-run"),
        backfill,
        (*scan, "--out", f"{tmp_path}/findings.jsonl"),
        ("db", "init", "--store", frontier, "--max-attempts", "1"),
        ("add", "a", "--store", frontier),
        ("status", "--store", frontier),
        ("db", "check", "--store", frontier),
        ("explain", "a", "--store", frontier),
        ("pause", "default", "--store", frontier),
        ("lanes", "default", "--store", frontier),
    ):
        done = run_swath(*args)
        assert done.code == 0, done
        assert several(done.out + done.err) == [], args
