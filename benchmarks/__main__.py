"""`python -m benchmarks`: run the selected benchmarks, save the results and write them into the docs."""

import sqlite3
import sys
import time
from collections.abc import Callable, Mapping

import psycopg

import swath
from benchmarks import claimers, contest, flatness, machine, moves, report, runner, sink
from benchmarks.children import ChildFailed
from benchmarks.lab import Lab, open_labs
from benchmarks.progress import say
from benchmarks.results import Results
from benchmarks.settings import Settings

Measure = Callable[[Lab, Settings, Results], None]

BY_STORE: Mapping[str, Measure] = {
    "moves": moves.measure,
    "claimers": claimers.measure,
    "flatness": flatness.measure,
    "runner": runner.measure,
    "sink": sink.measure,
}


def main() -> int:
    if sys.argv[1:] == ["report"]:
        settings = Settings.from_environment()
        report.write(settings.results, settings.docs)
        return 0
    if sys.argv[1:]:
        print(f"{__doc__}\n`python -m benchmarks report` writes the docs from saved results.", file=sys.stderr)
        return 2
    settings = Settings.from_environment()
    about = machine.describe(trial=settings.trial)
    say(f"{settings.items:,} items, {settings.seconds:g} s a figure: {', '.join(settings.parts)}")
    code = 0
    try:
        code = _measure(settings, about)
    except KeyboardInterrupt:
        say("interrupted: the figures so far are saved")
        code = 130
    report.write(settings.results, settings.docs)
    report.show(settings.results)
    say(f"figures are in {settings.results}, tables in {settings.docs}")
    return code


def _measure(settings: Settings, about: Mapping[str, object]) -> int:
    failed = 0
    with open_labs(settings) as found:
        for store, lab in found.items():
            for part in BY_STORE:
                if part in settings.parts:
                    results = _results(settings, about, part, lab)
                    failed += _run_part(part, store, lambda: BY_STORE[part](lab, settings, results))  # noqa: B023
            flatness.clean(lab, settings)
        if {"peers", "size"} & set(settings.parts):
            for lab in found.values():
                results = _results(settings, about, "peers", lab)
                failed += _run_part("peers", lab.store, lambda: contest.measure(lab, settings, results))  # noqa: B023
    return 1 if failed else 0


def _results(settings: Settings, about: Mapping[str, object], part: str, lab: Lab) -> Results:
    path = settings.results / f"{part}-{lab.store}.json"
    return Results(path, {"part": part, "store": lab.store, **about, "settings": dict(lab.settings())})


def _run_part(part: str, store: str, measure: Callable[[], None]) -> int:
    """Measure one part and return 1 if it failed, so that the other parts still run."""
    started = time.monotonic()
    try:
        measure()
    except (ChildFailed, RuntimeError, AssertionError, swath.SwathError, psycopg.Error, sqlite3.Error) as error:
        say(f"{part}, {store} FAILED: {type(error).__name__}: {error}")
        return 1
    say(f"{part}, {store}: took {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
