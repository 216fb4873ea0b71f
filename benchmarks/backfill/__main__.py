"""`python -m benchmarks.backfill`: one table, changed in several ways; saved, and written into the docs."""

import signal
import sys
import time

import psycopg

from benchmarks import machine, report
from benchmarks.backfill.race import Race
from benchmarks.backfill.report import SECTIONS
from benchmarks.backfill.settings import TARGET_SECONDS, Settings
from benchmarks.crawl.tree import ContestantFailed
from benchmarks.progress import say
from benchmarks.results import Results
from tests.postgres_server import PostgresServer

PACKAGES = ("swath", "psycopg", "psycopg-binary")
COMMAND = "make bench-backfill"


def main() -> int:
    settings = Settings.from_environment()
    if sys.argv[1:] == ["report"]:
        report.write(settings.results, settings.docs, SECTIONS, COMMAND)
        return 0
    if sys.argv[1:]:
        print(f"{__doc__}\n`python -m benchmarks.backfill report` writes the docs from saved results.", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # the server is ended on the way out
    code = 1
    try:
        with PostgresServer(settings=dict(settings.postgres)) as server:
            say(f"PostgreSQL {server.version} runs in {server.directory}")
            code = _race(server, settings)
    except KeyboardInterrupt:
        say("broken off: what was measured so far is saved")
        code = 130
    report.write(settings.results, settings.docs, SECTIONS, COMMAND)
    report.show(settings.results, SECTIONS)
    say(f"figures are in {settings.results}, the table in {settings.docs}")
    return code


def _race(server: PostgresServer, settings: Settings) -> int:
    race = Race(server, settings)
    about = {
        **machine.describe(trial=settings.trial, packages=PACKAGES, module="benchmarks.backfill"),
        "settings": {
            **machine.describe_postgres(server.dsn()),
            "rows": f"{settings.rows:,}",
            "--target-time": f"{TARGET_SECONDS:g} s",
        },
    }
    results = Results(settings.results / "backfill.json", {"part": "backfill", **about})
    failed = 0
    for turn in range(settings.rounds):
        for part in settings.parts:
            began = time.monotonic()
            try:
                figure = race.figure(part)
            except (ContestantFailed, RuntimeError, OSError, psycopg.Error) as error:
                say(f"{part} FAILED: {type(error).__name__}: {error}")
                failed += 1
                continue
            results.add(figure)
            say(
                f"round {turn + 1}, {figure['name']}: {figure['seconds']:.1f} s, longest lock "
                f"{figure['longest_lock_seconds']:.2f} s, {time.monotonic() - began:.0f} s with the table"
            )
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
