"""The parts of `swath show`: which capture is chosen, what is text, and why a page is missing."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from swath import UsageError
from swath.cli import show_command
from swath.cli.show_command import ShowCommand, choose_part
from swath.crawl.archive.cdxj import IndexEntry
from swath.crawl.settings import CrawlSettings


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (b"plain", None, True),
        (b"plain", "application/octet-stream", True),
        (b"plain", "image/png", False),
        (b"plain", "application/json", True),
        (b"plain", "image/svg+xml", True),
        (b"plain", "application/ld+json", True),
        (b"a\0b", None, False),
        (b"a\xffb", None, False),
        (("x" * (show_command.SNIFFED - 1) + "ü").encode(), None, True),
        (b"x" * show_command.SNIFFED + b"\0", None, True),
        (b"x" * (show_command.SNIFFED - 1) + b"\0", None, False),
    ],
)
def test_what_is_printed_as_text(body: bytes, content_type: str | None, text: bool) -> None:
    assert show_command._is_text(body, content_type) is text


def test_the_capture_of_a_time_is_the_last_one_before(tmp_path: Path) -> None:
    captures = [
        IndexEntry("https://a.example/", time, 200, "text/html", "sha1:X", "f", 1, 5) for time in (100.0, 200.0, 300.0)
    ]

    def choose(seconds: float | None) -> float:
        time = None if seconds is None else datetime.fromtimestamp(seconds, UTC)
        command = ShowCommand(CrawlSettings(out=str(tmp_path)), "page", time=time, all_captures=False)
        return command._choose(captures).time

    assert [choose(seconds) for seconds in (None, 100, 199, 200, 1e9)] == [300, 100, 100, 200, 300]
    with pytest.raises(UsageError, match="before 1970-01-01 00:01:40 UTC"):
        choose(99)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"failed": "dns"}, "could not be fetched at 1970-01-01 00:00:00 UTC: dns"),
        ({"excluded": "robots", "rule": "Disallow: /"}, "was not fetched: robots: Disallow: /"),
        ({}, "could not be fetched at 1970-01-01 00:00:00 UTC: there was no response"),
        ({"status": 0}, "there was no response"),
        ({"status": 404}, "was fetched at 1970-01-01 00:00:00 UTC (status 404), but not archived"),
    ],
)
def test_why_a_page_is_not_in_the_archive(line: dict[str, object], said: str) -> None:
    assert said in show_command._describe_line({"url": "https://a.example/", "time": 0, **line})


def test_one_part_is_printed() -> None:
    def choose(**given: bool) -> str:
        options = dict.fromkeys(("headers", "body", "raw", "all_captures", "json"), False)
        return choose_part(**{**options, **given})

    assert [choose(), choose(body=True), choose(all_captures=True)] == ["page", "body", "page"]
    assert choose(all_captures=True, json=True) == "json"
    with pytest.raises(UsageError, match="--body and --json exclude each other"):
        choose(body=True, json=True)
    with pytest.raises(UsageError, match="--all lists the captures: choose one with --time to print its headers"):
        choose(all_captures=True, headers=True)
