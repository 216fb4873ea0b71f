from datetime import UTC, datetime

import pytest
import typer

from swath.cli.parsers import (
    parse_concurrency,
    parse_duration,
    parse_interval,
    parse_json,
    parse_size,
    parse_time,
    parse_time_or_duration,
)


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
    assert parse_duration(text) == seconds
    assert parse_interval(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "10x", "soon", "1e9", "nan", "inf", "1m30s", "1,5"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a duration"):
        parse_duration(text)


def test_sizes() -> None:
    assert [parse_size(text) for text in ("10MB", "1.5 kB", "512KiB", "7")] == [10_000_000, 1_500, 524_288, 7]
    for text in ("", "-1", "10x", "much", "9" * 400):
        with pytest.raises(typer.BadParameter, match="is not a size"):
            parse_size(text)


def test_limits_of_a_lane() -> None:
    assert parse_interval("default") == "default"
    assert parse_concurrency("default") == "default"
    assert parse_concurrency("5") == 5
    with pytest.raises(typer.BadParameter, match="whole number"):
        parse_concurrency("1.5")


def test_moments() -> None:
    assert parse_time("2030-01-31T12:00:00Z") == datetime(2030, 1, 31, 12, tzinfo=UTC)
    assert parse_time("2030-01-31T12:00:00+02:00") == datetime(2030, 1, 31, 10, tzinfo=UTC)
    assert parse_time_or_duration("10m") == 600
    assert parse_time_or_duration("2030-01-31T12:00Z") == datetime(2030, 1, 31, 12, tzinfo=UTC)
    for text, complaint in [
        ("2030-01-31", "no time zone"),
        ("2030-13-01T00:00Z", "not a time"),
        ("9999-12-31T23:59:59-01:00", "before the year 10000"),
        ("soon", "like 10m"),
        ("10x", "not a duration"),
        ("9" * 400 + "h", "more than 100 years"),
    ]:
        with pytest.raises(typer.BadParameter, match=complaint):
            parse_time_or_duration(text)


def test_moments_that_were_parsed_already() -> None:
    moment = datetime.fromisoformat("2030-01-31T12:00:00+02:00")
    for parse in (parse_time, parse_time_or_duration):
        found = parse(moment)
        assert (found, getattr(found, "tzinfo", None)) == (moment, UTC)
        with pytest.raises(typer.BadParameter, match="no time zone"):
            parse(moment.replace(tzinfo=None))
    assert parse_time_or_duration(1.5) == 1.5


def test_json() -> None:
    assert parse_json("null").value is None
    assert parse_json('{"a": [1]}').value == {"a": [1]}
    with pytest.raises(typer.BadParameter, match="is not JSON"):
        parse_json("text")
