"""What a run measures, read from environment variables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks import settings as base

PARTS = (
    "bare", "bare-warc", "swath", "swath-2", "swath-postgres", "scrapy", "scrapy-jobdir", "crawlee", "tls", "profile",
    "slow",
)  # fmt: skip
HOSTS = 200
FULL_PAGES = 20_000
TLS_PAGES = 4_000
ROUNDS = 3  # of the crawlers with goals, in turn

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Settings:
    pages: int = FULL_PAGES
    rounds: int = ROUNDS
    parts: tuple[str, ...] = PARTS
    slow_seconds: float = 60.0
    postgres: tuple[tuple[str, str], ...] = ()
    results: Path = HERE.parent / "results"
    docs: Path = HERE.parent.parent / "docs" / "benchmarks.md"

    @property
    def trial(self) -> bool:
        """Whether the run is too small for meaningful figures."""
        return self.pages < FULL_PAGES

    @property
    def tls_pages(self) -> int:
        return min(self.pages, TLS_PAGES)

    @classmethod
    def from_environment(cls, given: Mapping[str, str] = os.environ) -> "Settings":
        default = cls()
        pages = base.parse_number("BENCH_PAGES", given.get("BENCH_PAGES", str(default.pages)), least=HOSTS * 5)
        return cls(
            pages=pages // HOSTS * HOSTS,
            rounds=base.parse_number("BENCH_ROUNDS", given.get("BENCH_ROUNDS", str(default.rounds)), least=1),
            parts=base.select("BENCH_ONLY", given.get("BENCH_ONLY", ""), PARTS),
            slow_seconds=base.parse_number("BENCH_SLOW_SECONDS", given.get("BENCH_SLOW_SECONDS", "60"), least=30.0),
            postgres=base.parse_pairs("BENCH_POSTGRES", given.get("BENCH_POSTGRES", base.POSTGRES)),
            results=Path(given.get("BENCH_RESULTS", default.results)),
            docs=Path(given.get("BENCH_DOCS", default.docs)),
        )
