"""The range of each number among the settings of a backfill and of a scan."""

from typing import Any

import pytest

from swath.backfill.settings import MAX_NAME, MAX_WORKERS, BackfillSettings
from swath.core.errors import InvalidSetting
from swath.scan.settings import ScanSettings


def make_backfill(**given: Any) -> BackfillSettings:
    return BackfillSettings(**{"db": "postgresql://host/db", "table": "t", "set": "a = 1", **given})


@pytest.mark.parametrize(
    ("name", "accepted", "refused"),
    [
        ("workers", [1, MAX_WORKERS], [0, MAX_WORKERS + 1]),
        ("batch", [1], [0]),
        ("target_time", [0.01], [0.009]),
        ("lease", [1.0], [0.99]),
        ("max_active", [0], [-1]),
        ("name", ["a" * MAX_NAME, "_1"], ["a" * (MAX_NAME + 1), "1a", "A", ""]),
    ],
)
def test_ranges_of_a_backfill(name: str, accepted: list[Any], refused: list[Any]) -> None:
    for value in accepted:
        assert getattr(make_backfill(**{name: value}), name) == value
    for value in refused:
        with pytest.raises(InvalidSetting, match=f"--{name.replace('_', '-')} "):
            make_backfill(**{name: value})


@pytest.mark.parametrize(
    ("name", "accepted", "refused"), [("workers", 1, 0), ("timeout", 0.1, 0.09), ("lease", 1.0, 0.99)]
)
def test_ranges_of_a_scan(name: str, accepted: float, refused: float) -> None:
    def make(value: float) -> ScanSettings:
        given: dict[str, Any] = {name: value}
        return ScanSettings(source="x", check="m:f", **given)

    assert getattr(make(accepted), name) == accepted
    with pytest.raises(InvalidSetting, match=f"--{name} "):
        make(refused)


def test_the_schema_of_a_frontier_is_named_after_the_table() -> None:
    assert make_backfill(table="Shop.Order Items").schema == "swath_backfill_shop_order_items"
    assert len(make_backfill(table="t" * 100).schema) == MAX_NAME
    assert make_backfill(name="mine").store_url == "postgresql://host/db?schema=mine"
    assert make_backfill(db="postgresql://host/db?x=1", name="mine").store_url == "postgresql://host/db?x=1&schema=mine"
    assert make_backfill(store="memory:").store_url == "memory:"


def test_the_defaults() -> None:
    backfill, scan = make_backfill(), ScanSettings(source="x", check="m:f")
    assert (backfill.workers, backfill.batch, backfill.target_time, backfill.timeout, backfill.lease) == (
        4, 1_000, 0.5, 600.0, 60.0,
    )  # fmt: skip
    assert (backfill.follow, backfill.force) == (False, False)
    assert (scan.workers, scan.timeout, scan.lease, scan.recheck, scan.fresh) == (4, 60.0, 60.0, False, False)
