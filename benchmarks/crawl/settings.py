"""What a run measures, read from environment variables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks import settings as base

PARTS = (
    "bare", "bare-warc", "swath", "swath-2", "swath-postgres", "scrapy", "scrapy-jobdir", "crawlee", "handlers", "tls",
    "profile", "slow", "polite",
)  # fmt: skip
HOSTS = 200
FULL_PAGES = 20_000
TLS_PAGES = 4_000
ROUNDS = 3  # of the crawlers with goals, in turn
POLITE_HOSTS = 3_000
POLITE_DELAY = 10.0
POLITE_SECONDS = 180.0
FEWEST_DELAYS = 4  # in the time of a polite crawl

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Settings:
    pages: int = FULL_PAGES
    rounds: int = ROUNDS
    parts: tuple[str, ...] = PARTS
    slow_seconds: float = 60.0
    polite_hosts: int = POLITE_HOSTS
    polite_delay: float = POLITE_DELAY
    polite_seconds: float = POLITE_SECONDS
    postgres: tuple[tuple[str, str], ...] = ()
    results: Path = HERE.parent / "results"
    docs: Path = HERE.parent.parent / "docs" / "benchmarks.md"

    @property
    def trial(self) -> bool:
        """Whether the run is too small for meaningful figures."""
        delays = self.polite_seconds / self.polite_delay
        polite = self.polite_hosts >= POLITE_HOSTS and delays >= POLITE_SECONDS / POLITE_DELAY
        return self.pages < FULL_PAGES or not polite

    @property
    def tls_pages(self) -> int:
        return min(self.pages, TLS_PAGES)

    @classmethod
    def from_environment(cls, given: Mapping[str, str] = os.environ) -> "Settings":
        default = cls()
        pages = base.parse_number("BENCH_PAGES", given.get("BENCH_PAGES", str(default.pages)), least=HOSTS * 5)
        delay = base.parse_number("BENCH_DELAY", given.get("BENCH_DELAY", str(POLITE_DELAY)), least=0.1)
        return cls(
            pages=pages // HOSTS * HOSTS,
            rounds=base.parse_number("BENCH_ROUNDS", given.get("BENCH_ROUNDS", str(default.rounds)), least=1),
            parts=base.select("BENCH_ONLY", given.get("BENCH_ONLY", ""), PARTS),
            slow_seconds=base.parse_number("BENCH_SLOW_SECONDS", given.get("BENCH_SLOW_SECONDS", "60"), least=30.0),
            polite_hosts=base.parse_number("BENCH_HOSTS", given.get("BENCH_HOSTS", str(POLITE_HOSTS)), least=20),
            polite_delay=delay,
            polite_seconds=base.parse_number(
                "BENCH_POLITE_SECONDS",
                given.get("BENCH_POLITE_SECONDS", str(POLITE_SECONDS)),
                least=FEWEST_DELAYS * delay,
            ),
            postgres=base.parse_pairs("BENCH_POSTGRES", given.get("BENCH_POSTGRES", base.POSTGRES)),
            results=Path(given.get("BENCH_RESULTS", default.results)),
            docs=Path(given.get("BENCH_DOCS", default.docs)),
        )
