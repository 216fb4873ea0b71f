"""`python -m benchmarks.kills`: kill the same spider of several crawlers, count its items, and write the docs."""

import asyncio
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import machine, report
from benchmarks.kills.contestants import AT_ONCE, CONTESTANTS
from benchmarks.kills.kill_runs import kill_until_finished
from benchmarks.kills.report import SECTIONS
from benchmarks.kills.settings import Settings
from benchmarks.kills.shop_server import draw_moments, serve_shop
from benchmarks.progress import say
from benchmarks.results import Figure, Results
from tests.postgres_server import PostgresServer

PACKAGES = ("swath", "psycopg", "scrapy", "queuelib", "crawlee", "SQLAlchemy", "aiosqlite")
COMMAND = "make bench-kills"


def main() -> int:
    settings = Settings.from_environment()
    # So that `finally` blocks end the crawler.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if sys.argv[1:] == ["report"]:
        report.write(settings.results, settings.docs, SECTIONS, COMMAND)
        return 0
    about = {
        **machine.describe(trial=settings.trial, packages=PACKAGES, module="benchmarks.kills"),
        "settings": {
            "books": f"{settings.books:,}",
            "rounds": str(settings.rounds),
            "kills a round": f"up to {settings.kills}",
            "requests at once": str(AT_ONCE),
        },
    }
    results = Results(settings.results / "kills.json", {"part": "kills", **about})
    for part in settings.parts:
        for seed in range(1, settings.rounds + 1):
            figure = _measure(part, seed, settings)
            results.add({**figure, "seed": seed})
            say(f"{part}, round {seed}: " + ", ".join(f"{key} {figure[key]}" for key in _SAID))
    report.write(settings.results, settings.docs, SECTIONS, COMMAND)
    report.show(settings.results, SECTIONS)
    say(f"figures are in {settings.results}, tables in {settings.docs}")
    return 0


_SAID = ("kills", "runs", "lost", "doubled", "broken", "wrong", "pages_again", "says")


def _measure(part: str, seed: int, settings: Settings) -> Figure:
    with tempfile.TemporaryDirectory(prefix="swath-bench-kills-") as home, _open_store(part) as store:
        return asyncio.run(_measure_in(part, seed, settings, Path(home), store))


async def _measure_in(part: str, seed: int, settings: Settings, home: Path, store: str) -> Figure:
    async with serve_shop(settings.books) as server:
        moments = draw_moments(seed, settings.kills, books=settings.books)
        return await kill_until_finished(CONTESTANTS[part], server, moments, home, store=store)


@contextmanager
def _open_store(part: str) -> Iterator[str]:
    """Yield the URL of a frontier in PostgreSQL for the crawler that has one."""
    if not part.endswith("-postgres"):
        yield ""
        return
    with PostgresServer() as server:
        yield f"{server.dsn()}&schema=crawl"


if __name__ == "__main__":
    raise SystemExit(main())
