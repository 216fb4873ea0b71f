"""`crawl.json`: which value a setting has, and what is said about changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from swath.core.errors import InvalidSetting, UsageError
from swath.crawl.settings import CrawlSettings
from swath.crawl.settings_file import FILE, find_changes, locate_crawl, resolve_settings, save_settings


def resolve(out: Path, *, reset: tuple[str, ...] = (), **given: Any) -> CrawlSettings:
    return resolve_settings({"out": str(out), **given}, reset=reset)


def test_a_setting_is_the_given_one_then_the_saved_one_then_the_default(tmp_path: Path) -> None:
    save_settings(CrawlSettings(out=str(tmp_path), delay=5.0, include=("a", "b"), sitemaps=False, timeout=20))
    assert resolve(tmp_path).delay == 5.0
    assert resolve(tmp_path).include == ("a", "b")
    assert not resolve(tmp_path).sitemaps
    given = resolve(tmp_path, delay=1.0, include=("c",), sitemaps=True)
    assert (given.delay, given.include, given.sitemaps, given.scope) == (1.0, ("c",), True, "host")
    assert find_changes(resolve(tmp_path)) == []
    assert find_changes(given) == [
        "--delay was 5.0 before and is now 1.0",
        '--include was ["a", "b"] before and is now ["c"]',
        "--sitemaps was false before and is now true (the default)",
    ]


def test_settings_that_may_differ_from_run_to_run_are_not_saved(tmp_path: Path) -> None:
    save_settings(CrawlSettings(out=str(tmp_path), workers=7, processes=2, max_pages=9, max_duration=3.0))
    found = resolve(tmp_path)
    assert (found.workers, found.processes, found.max_pages, found.max_duration) == (500, 1, None, None)
    assert find_changes(found) == []


def test_reset_returns_saved_settings_to_their_defaults(tmp_path: Path) -> None:
    save_settings(CrawlSettings(out=str(tmp_path), delay=5.0, exclude=("a",), depth=3))
    some = resolve(tmp_path, reset=("exclude", "--depth"))
    assert (some.exclude, some.depth, some.delay) == ((), None, 5.0)
    assert find_changes(some) == [
        '--exclude was ["a"] before and is now not set',
        "--depth was 3 before and is now not set",
    ]
    assert resolve(tmp_path, reset=("all",)) == CrawlSettings(out=str(tmp_path))
    assert resolve(tmp_path, reset=("depth",), depth=1).depth == 1
    with pytest.raises(InvalidSetting, match="--reset max-pages: is not the name of a saved setting"):
        resolve(tmp_path, reset=("max-pages",))


def test_the_store_is_saved_without_its_password(tmp_path: Path) -> None:
    url = "postgresql://me:se%40cret@db.example/work?schema=news&sslpassword=other"
    save_settings(CrawlSettings(out=str(tmp_path), store=url))
    text = (tmp_path / FILE).read_text()
    assert "cret" not in text
    assert "other" not in text
    expected = "postgresql://me@db.example/work?schema=news"
    assert resolve(tmp_path).store == expected
    assert locate_crawl(str(tmp_path)).store == expected
    assert find_changes(CrawlSettings(out=str(tmp_path), store=url)) == []


def test_a_sqlite_store_is_saved_as_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    save_settings(CrawlSettings(out="out", store="sqlite:///w%20b.db?schema=a", exclude_hosts="hosts.txt"))
    monkeypatch.chdir("/")
    found = resolve(tmp_path / "out")
    assert found.store == f"sqlite:///{tmp_path}/w%20b.db?schema=a"
    assert found.exclude_hosts == f"{tmp_path}/hosts.txt"


def test_the_default_store_is_not_saved_so_that_the_directory_can_be_moved(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    save_settings(CrawlSettings(out=str(tmp_path / "old"), store=f"sqlite:///{tmp_path}/old/frontier.db"))
    (tmp_path / "old").rename(tmp_path / "new")
    assert resolve(tmp_path / "new").store is None


def test_changes_are_described(tmp_path: Path) -> None:
    first = CrawlSettings(out=str(tmp_path), include=("a", "b"), depth=3)
    assert find_changes(first) == []
    save_settings(first)
    assert find_changes(first) == []
    store = "sqlite:////other.db"
    other = CrawlSettings(out=str(tmp_path), include=("a",), scope="any", workers=7, max_pages=5, store=store)
    assert list(find_changes(other)) == [
        '--scope was "host" (the default) before and is now "any"',
        '--include was ["a", "b"] before and is now ["a"]',
        "--depth was 3 before and is now not set",
        f'--store was the default before and is now "{store}"',
    ]


def test_a_setting_missing_from_the_file_has_its_default(tmp_path: Path) -> None:
    settings = CrawlSettings(out=str(tmp_path))
    (tmp_path / FILE).write_text("{}")
    assert find_changes(settings) == []
    assert resolve(tmp_path) == settings


def test_settings_of_a_newer_version_are_ignored(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"delay": 2, "telepathy": true}')
    assert resolve(tmp_path).delay == 2


@pytest.mark.parametrize("content", ["{", "[]", "\xff"])
def test_a_damaged_settings_file_is_reported(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_bytes(content.encode("latin-1"))
    with pytest.raises(InvalidSetting, match=r"crawl\.json is damaged"):
        resolve(tmp_path)


@pytest.mark.parametrize(
    "value", [{"delay": "5"}, {"include": "a"}, {"include": [1]}, {"robots": 1}, {"depth": True}, {"timeout": None}]
)
def test_a_saved_value_of_another_type_is_reported(tmp_path: Path, value: dict[str, object]) -> None:
    (tmp_path / FILE).write_text(json.dumps(value))
    with pytest.raises(InvalidSetting, match=f"which is not a value of --{next(iter(value))}"):
        resolve(tmp_path)


def test_a_directory_without_a_crawl_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"there is no crawl in {tmp_path}: name its directory with --out"):
        locate_crawl(str(tmp_path))
    assert locate_crawl(str(tmp_path), "postgresql:///news").store == "postgresql:///news"
    (tmp_path / "frontier.db").touch()
    assert locate_crawl(str(tmp_path)).store is None
