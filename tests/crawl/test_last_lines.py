"""The last line of each URL, compared with a model that keeps all lines."""

import random
from pathlib import Path

import pytest

from swath.crawl.archive import last_lines
from swath.crawl.archive.last_lines import LastLines


def make_pages(count: int, urls: int, seed: int) -> list[dict[str, object]]:
    chance = random.Random(seed)
    return [
        {
            "url": f"https://a.example/{chance.randrange(urls)}",
            "kind": chance.choice(["page", "robots"]),
            "time": chance.choice([1.0, 2.0, 3.5]),
            "number": number,
        }
        for number in range(count)
    ]


@pytest.mark.parametrize("spooled", [100, last_lines.SPOOLED])
def test_the_last_line_of_each_url_and_kind_is_selected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spooled: int
) -> None:
    monkeypatch.setattr(last_lines, "SPOOLED", spooled)  # small: on disk
    monkeypatch.setattr(last_lines, "READ_LINES", 3)
    pages = make_pages(5_000, 1_000, seed=1)
    expected: dict[object, dict[str, object]] = {}
    for page in pages:
        key = (page["url"], page["kind"])
        if key not in expected or page["time"] >= expected[key]["time"]:  # type: ignore[operator]
            expected[key] = page
    selected = list(LastLines.find(pages, directory=tmp_path).select(pages))
    assert selected == sorted(expected.values(), key=lambda page: page["number"])  # type: ignore[arg-type,return-value]


def test_pages_of_two_hosts_may_have_the_same_key() -> None:
    lines = [{"url": f"https://{host}.example/", "key": "poetry", "time": 1.0} for host in "abb"]
    assert list(LastLines.find(lines).select(lines)) == [lines[0], lines[2]]


def test_a_crawl_without_pages_has_no_last_lines() -> None:
    assert list(LastLines.find([]).select([])) == []


@pytest.mark.parametrize("order", [1, -1])
def test_the_line_of_a_repair_replaces_that_of_its_visit_in_any_order(tmp_path: Path, order: int) -> None:
    """It is in a file of another process, which may be read first."""
    lines: list[dict[str, object]] = [
        {"url": "https://a.example/", "time": 1.0, "handler_error": "x"},
        {"url": "https://a.example/", "time": 1.0, "handler_error": "y", "repaired": 3.0},
        {"url": "https://a.example/", "time": 1.0, "repaired": 4.0},
        {"url": "https://b.example/", "time": 1.0, "repaired": 4.0},
        {"url": "https://b.example/", "time": 2.0, "handler_error": "a later visit"},
    ]
    pages = lines[::order]
    assert list(LastLines.find(pages, directory=tmp_path).select(pages))[::order] == [lines[2], lines[4]]
