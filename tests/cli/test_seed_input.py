"""Reading seeds for `swath crawl`: what is skipped, the progress of long lists, and Ctrl-C."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import swath
from swath.cli.crawl_command import CrawlCommand
from swath.cli.progress_line import PLAIN_SECONDS
from swath.cli.seed_input import SeedProgress, read_all_seeds
from swath.core.errors import UsageError
from swath.core.item import Item
from swath.crawl import seeds
from swath.crawl.seeds import QUEUED, READ, SeedRules
from swath.crawl.settings import CrawlSettings
from tests.cli.conftest import COMMAND, TIMEOUT, environment, run_swath
from tests.crawl.driving import prepare, read_status

CLOSED = ("--connect-to", "::127.0.0.1:1", "--allow-private", "--retries", "0", "--delay", "0s")


def test_a_published_list_is_crawled(tmp_path: Path) -> None:
    (tmp_path / "top.csv").write_bytes(b"rank,domain\r\n1,a.example\r\n2,oops\r\n3,\x1b[2J\r\n4,b.example\r\n")
    result = run_swath("crawl", "--seeds", str(tmp_path / "top.csv"), *CLOSED, "--out", str(tmp_path / "out"))
    assert (tmp_path / "out" / "seeds.txt").read_text() == "https://a.example/\nhttps://b.example/\n"
    lines = result.err.splitlines()
    assert lines[:3] == [
        f"swath: skipped line 3 of {tmp_path}/top.csv: '2,oops' has no column with a host name or URL",
        rf"swath: skipped line 4 of {tmp_path}/top.csv: '3,\x1b[2J' has no column with a host name or URL",
        f"swath: skipped 2 bad lines of {tmp_path}/top.csv, 2 good; --seeds-strict refuses bad lines",
    ]
    assert "\x1b" not in result.err


def test_a_list_without_a_good_line_is_an_error(tmp_path: Path) -> None:
    result = run_swath("crawl", "--seeds", "-", "--out", str(tmp_path / "out"), stdin="two words\n")
    assert result.code == 2
    assert result.err.endswith("swath: nothing to crawl: standard input has no line that can be crawled\n")
    assert not (tmp_path / "out").exists()


def test_a_bad_argument_is_an_error_beside_a_good_list(tmp_path: Path) -> None:
    result = run_swath("crawl", "1,a.example", "--seeds", "-", "--out", str(tmp_path / "out"), stdin="b.example\n")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "'1,a.example' is not a URL or host name" in result.err


async def test_a_directory_is_not_a_list(tmp_path: Path) -> None:
    rules = SeedRules(CrawlSettings(out=str(tmp_path)))
    with pytest.raises(UsageError, match=f"--seeds {tmp_path}: Is a directory"):
        [seed async for seed in read_all_seeds([], str(tmp_path), rules, strict=False)]


def test_loading_prints_a_line_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    with SeedProgress(quiet=False, clock=lambda: now) as progress:
        for count in (1_000, 2_000, 3_000):
            now += PLAIN_SECONDS / 2
            progress.report(READ, count)
        progress.report(QUEUED, 0)
        now += PLAIN_SECONDS / 2
        progress.report(QUEUED, 1_000)
    lines = [line.split(" ", 2) for line in capsys.readouterr().err.splitlines()]
    assert [text for _, _, text in lines] == [
        "2,000 seeds read, 200 a second",
        "1,000 of 3,000 seeds queued, 200 a second",
    ]
    assert all(datetime.fromisoformat(time).tzinfo is UTC for _, time, _ in lines)


async def test_each_batch_of_queued_seeds_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "ADD_BATCH", 2)
    monkeypatch.setattr(seeds, "make_seed_items", lambda *_: iter([Item(key) for key in "aabcd"]))
    reports: list[tuple[str, int]] = []
    (tmp_path / seeds.UNQUEUED_FILE).touch()
    async with swath.open("memory:") as frontier:
        settings = CrawlSettings(out=str(tmp_path))
        added = await seeds.queue_seeds(frontier, settings, [], report=lambda *report: reports.append(report))
    assert added == 4
    assert reports == [(QUEUED, 0), (QUEUED, 2), (QUEUED, 4), (QUEUED, 5)]
    assert os.listdir(tmp_path) == []


def test_quiet_loading_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    with SeedProgress(quiet=True, clock=lambda: now) as progress:
        now += PLAIN_SECONDS
        progress.report(READ, 1_000)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_wait_for_seeds(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "out"
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*COMMAND, "crawl", "--seeds", "-", "--out", str(out)], stdin=pipe, stderr=pipe, env=environment()
    )
    assert process.stdin is not None
    process.stdin.write(b"a.example\n")
    process.stdin.flush()
    _wait_for(out)
    process.send_signal(number)
    _, said = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out.exists()) == (130, False)
    assert b"stopped after " in said
    assert b"run the same command again" in said


def _wait_for(path: Path) -> None:
    until = time.monotonic() + TIMEOUT
    while not path.exists():
        assert time.monotonic() < until
        os.sched_yield()


async def test_a_stop_while_seeds_are_queued_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = CrawlSettings(out=str(tmp_path / "out"), connect_to=("::127.0.0.1:1",), allow_private=True, delay=0.0)
    names = [f"https://a.example/{number}" for number in range(25)]
    monkeypatch.setattr(seeds, "ADD_BATCH", 10)
    command = CrawlCommand(settings, json=True, quiet=False)
    plain = seeds.make_seed_items

    def stopping(*args: Any) -> Iterator[Item]:
        for number, item in enumerate(plain(*args)):
            if number == 12:
                command._stop.request("SIGINT")
            yield item

    with monkeypatch.context() as patch:
        patch.setattr(seeds, "make_seed_items", stopping)
        assert await command.run(names, None) == 130
    assert "stopped after 10 of 25 seeds queued: run the same command again" in capsys.readouterr().err
    again = await prepare(settings, names)
    assert again.resumed
    assert (await read_status(settings)).waiting == 25
