from datetime import UTC, datetime

import pytest
import typer

from swath.cli import values


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1.5", 1.5),
        ("70s", 70),
        ("10m", 600),
        ("2h", 7200),
        ("1d", 86400),
        ("250ms", 0.25),
        ("0", 0),
        (".5", 0.5),
        ("10 min", 600),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert values.duration(text) == seconds
    assert values.interval(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "10x", "soon", "1e9", "nan", "inf", "1m30s", "1,5"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a length of time"):
        values.duration(text)


def test_sizes() -> None:
    assert [values.size(text) for text in ("10MB", "1.5 kB", "512KiB", "7")] == [10_000_000, 1_500, 524_288, 7]
    for text in ("", "-1", "10x", "much", "9" * 400):
        with pytest.raises(typer.BadParameter, match="is not a size"):
            values.size(text)


def test_limits_of_a_lane() -> None:
    assert values.interval("default") == "default"
    assert values.at_once("default") == "default"
    assert values.at_once("5") == 5
    with pytest.raises(typer.BadParameter, match="whole number"):
        values.at_once("1.5")


def test_moments() -> None:
    assert values.moment("2030-01-31T12:00:00Z") == datetime(2030, 1, 31, 12, tzinfo=UTC)
    assert values.moment("2030-01-31T12:00:00+02:00") == datetime(2030, 1, 31, 10, tzinfo=UTC)
    assert values.moment_or_duration("10m") == 600
    assert values.moment_or_duration("2030-01-31T12:00Z") == datetime(2030, 1, 31, 12, tzinfo=UTC)
    for text, complaint in [
        ("2030-01-31", "no time zone"),
        ("2030-13-01T00:00Z", "not a moment"),
        ("9999-12-31T23:59:59-01:00", "before the year 10000"),
        ("soon", "like 10m"),
        ("10x", "not a length of time"),
        ("9" * 400 + "h", "more than 100 years"),
    ]:
        with pytest.raises(typer.BadParameter, match=complaint):
            values.moment_or_duration(text)


def test_json() -> None:
    assert values.json_value("null").value is None
    assert values.json_value('{"a": [1]}').value == {"a": [1]}
    with pytest.raises(typer.BadParameter, match="is not JSON"):
        values.json_value("text")
