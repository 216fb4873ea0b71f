"""`python -m benchmarks`: measure what was asked for, save it, and write it into the docs."""

import sqlite3
import sys
import time
from collections.abc import Callable, Mapping

import psycopg

import swath
from benchmarks import contest, flatness, machine, moves, report, runner, sink
from benchmarks.children import ChildFailed
from benchmarks.lab import Lab, labs
from benchmarks.progress import say
from benchmarks.results import Results
from benchmarks.settings import Settings

Measure = Callable[[Lab, Settings, Results], None]

BY_STORE: Mapping[str, Measure] = {
    "moves": moves.measure,
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
        say("broken off: what was measured so far is saved")
        code = 130
    report.write(settings.results, settings.docs)
    report.show(settings.results)
    say(f"figures are in {settings.results}, tables in {settings.docs}")
    return code


def _measure(settings: Settings, about: Mapping[str, object]) -> int:
    failed = 0
    with labs(settings) as found:
        for store, lab in found.items():
            for part in BY_STORE:
                if part in settings.parts:
                    results = _results(settings, about, part, lab)
                    failed += _guarded(part, store, lambda: BY_STORE[part](lab, settings, results))  # noqa: B023
            flatness.clean(lab, settings)
        if {"peers", "size"} & set(settings.parts):
            for lab in found.values():
                results = _results(settings, about, "peers", lab)
                failed += _guarded("peers", lab.store, lambda: contest.measure(lab, settings, results))  # noqa: B023
    return 1 if failed else 0


def _results(settings: Settings, about: Mapping[str, object], part: str, lab: Lab) -> Results:
    path = settings.results / f"{part}-{lab.store}.json"
    return Results(path, {"part": part, "store": lab.store, **about, "settings": dict(lab.settings())})


def _guarded(part: str, store: str, measure: Callable[[], None]) -> int:
    """One part that fails does not take the others with it."""
    began = time.monotonic()
    try:
        measure()
    except (ChildFailed, RuntimeError, AssertionError, swath.SwathError, psycopg.Error, sqlite3.Error) as error:
        say(f"{part}, {store} FAILED: {type(error).__name__}: {error}")
        return 1
    say(f"{part}, {store}: took {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
