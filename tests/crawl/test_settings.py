"""What a crawl can be told: checked, kept, compared."""

from pathlib import Path

import pytest

from swath.core.errors import InvalidSetting
from swath.crawl.settings import DELAY_OF_ANY, DELAY_OF_SITE, FILE, CrawlSettings


def test_the_delay_follows_from_the_scope() -> None:
    assert CrawlSettings(out="x").min_interval == DELAY_OF_SITE
    assert CrawlSettings(out="x", scope="any").min_interval == DELAY_OF_ANY
    assert CrawlSettings(out="x", scope="any", delay=0).min_interval == 0


def test_the_agent_names_who_comes_and_whom_to_write_to() -> None:
    agent = CrawlSettings(out="x", contact="me@example.com").agent
    assert agent.startswith("swath/")
    assert agent.endswith(" (+me@example.com)")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"workers": 0}, "--workers 0: at least 1"),
        ({"max_pages_per_host": 0}, "--max-pages-per-host 0: at least 1"),
        ({"lane": "planet"}, "--lane planet"),
        ({"user_agent": "Mozilla/5.0 (X11)"}, "--user-agent"),
        ({"contact": "a\r\nX-Evil: 1"}, "--contact"),
        ({"contact": ""}, "--contact"),
        ({"timeout": 0.0}, "--timeout"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidSetting, match=said):
        CrawlSettings(out="x", **wrong)  # type: ignore[arg-type]


def test_changes_are_told(tmp_path: Path) -> None:
    first = CrawlSettings(out=str(tmp_path), include=("a", "b"), depth=3)
    assert first.changes() == []
    first.save()
    assert first.changes() == []
    other = CrawlSettings(out=str(tmp_path), include=("a",), scope="any", workers=7, max_pages=5)
    assert list(other.changes()) == [
        '--scope was "host" and is "any" now',
        '--include was ["a", "b"] and is ["a"] now',
        "--depth was 3 and is not given now",
    ]


def test_a_setting_that_an_older_version_did_not_have_has_its_default(tmp_path: Path) -> None:
    settings = CrawlSettings(out=str(tmp_path))
    (tmp_path / FILE).write_text("{}")
    assert settings.changes() == []


def test_damaged_settings_are_told(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    with pytest.raises(InvalidSetting, match=r"crawl\.json is damaged"):
        CrawlSettings(out=str(tmp_path)).changes()
