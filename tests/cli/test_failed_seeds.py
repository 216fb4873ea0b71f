"""Seeds that fail: what is printed of each, and when."""

import pytest

from swath.cli.failed_seeds import FailedSeeds
from swath.crawl.stats import NAMED_SEEDS, SeedFailure


def report(seeds: FailedSeeds, *failures: SeedFailure) -> None:
    seeds.report({"seed_failures": list(map(tuple, failures))})


def test_a_seed_is_named_once_and_again_when_it_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    seeds = FailedSeeds(json=False)
    waits, gone = SeedFailure("https://a.example/", "busy", 5.04), SeedFailure("https://a.example/", "gone", None)
    for failure in (waits, waits, waits._replace(next_attempt_seconds=9.0), gone, gone, waits):
        report(seeds, failure)
    report(seeds, SeedFailure("https://b.example/", "gone", None))
    assert capsys.readouterr().err.splitlines() == [
        "swath: seed https://a.example/: busy; next attempt in 5 s",
        "swath: seed https://a.example/: gone; given up",
        "swath: seed https://b.example/: gone",
    ]


def test_the_seeds_after_the_first_are_counted_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    seeds = FailedSeeds(json=False)
    failures = [SeedFailure(f"https://h{number}.example/", "gone", None) for number in range(NAMED_SEEDS + 2)]
    report(seeds, *failures)
    assert len(capsys.readouterr().err.splitlines()) == NAMED_SEEDS
    seeds.report_rest({"seed_failures": list(map(tuple, failures)), "other_seed_failures": 3})
    (line,) = capsys.readouterr().err.splitlines()
    assert "5" in line
    FailedSeeds(json=False).report_rest({})
    assert capsys.readouterr().err == ""
