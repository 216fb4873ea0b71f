"""Settings that are out of range are refused with a message that says what to pass."""

from typing import Any

import pytest

import swath


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"partitions": value}, f"partitions={value!r}: pass a whole number from 1 to 1,024")
        for value in ("4", 2.5, True, 0, 1_025)
    ]
    + [
        ({"min_interval": value}, f"min_interval={value!r}: pass a number of seconds from 0 to 3,153,600,000")
        for value in ("1", -1, True, float("nan"), 1e12)
    ]
    + [
        (
            {"concurrency": value},
            f"concurrency={value!r}: pass a whole number from 1 to 1,000,000, or None for no limit",
        )
        for value in ("1", 1.5, -1, 0, 1_000_001)
    ],
)
def test_an_invalid_setting_is_refused_with_the_valid_range(setting: dict[str, Any], complaint: str) -> None:
    with pytest.raises(swath.InvalidSetting) as error:
        swath.open("memory:", **setting)
    assert str(error.value) == complaint
