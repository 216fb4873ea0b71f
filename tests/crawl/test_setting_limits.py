"""The least value of each setting of a crawl, which settings are saved, and what `--help` says of their units."""

import dataclasses
from typing import Any

import pytest

from swath.core.errors import InvalidSetting
from swath.crawl.settings import CrawlSettings, SettingInfo

INFOS: dict[str, SettingInfo] = {
    field.name: field.metadata["setting"] for field in dataclasses.fields(CrawlSettings) if "setting" in field.metadata
}
MINIMUMS = {
    "workers": 1, "processes": 1, "delay": 0, "depth": 0, "max_pages": 1, "max_pages_per_host": 1, "max_duration": 0,
    "timeout": 0.1, "max_size": 1_000, "max_redirects": 0, "retries": 0, "max_workers_per_host": 0, "lease": 1,
    "warc_size": 1_000_000,
}  # fmt: skip
MAY_DIFFER = {
    "out", "store", "workers", "processes", "max_pages", "max_duration", "retry_failed", "lease", "connect_to",
    "dns_servers", "proxy", "run", "items", "same_code", "log_file", "log_level", "log_format",
}  # fmt: skip


def test_every_least_value_is_known() -> None:
    assert {name: info.minimum for name, info in INFOS.items() if info.minimum is not None} == MINIMUMS


@pytest.mark.parametrize(("name", "minimum"), MINIMUMS.items())
def test_the_least_value_is_accepted_and_a_lower_one_refused(name: str, minimum: float) -> None:
    def make(value: float) -> CrawlSettings:
        given: dict[str, Any] = {name: value}
        return CrawlSettings(out="x", **given)

    assert getattr(make(minimum), name) == minimum
    lower = minimum - (0.01 if name in ("timeout", "delay", "lease", "max_duration") else 1)
    with pytest.raises(InvalidSetting, match=f"--{name.replace('_', '-')} .*must be at least"):
        make(lower)


def test_settings_that_may_differ_from_run_to_run() -> None:
    assert {name for name, info in INFOS.items() if not info.saved} == MAY_DIFFER
