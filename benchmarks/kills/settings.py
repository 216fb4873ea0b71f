"""The settings of a run, from environment variables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks import settings as base

PARTS = (
    "swath", "swath-2", "swath-postgres", "scrapy", "scrapy-overwrite", "scrapy-jobdir", "scrapy-sqlite", "crawlee",
    "crawlee-sqlite",
)  # fmt: skip
BOOKS = 1_000
ROUNDS = 3  # each with moments of its own
KILLS = 5  # of a round

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Settings:
    books: int = BOOKS
    rounds: int = ROUNDS
    kills: int = KILLS
    parts: tuple[str, ...] = PARTS
    results: Path = HERE.parent / "results"
    docs: Path = HERE.parent.parent / "docs" / "benchmarks.md"

    @property
    def trial(self) -> bool:
        """Whether the run is too small for meaningful figures."""
        return self.books < BOOKS or self.rounds < ROUNDS or self.kills < KILLS

    @classmethod
    def from_environment(cls, given: Mapping[str, str] = os.environ) -> "Settings":
        default = cls()
        return cls(
            books=base.parse_number("BENCH_BOOKS", given.get("BENCH_BOOKS", str(BOOKS)), least=20),
            rounds=base.parse_number("BENCH_ROUNDS", given.get("BENCH_ROUNDS", str(ROUNDS)), least=1),
            kills=base.parse_number("BENCH_KILLS", given.get("BENCH_KILLS", str(KILLS)), least=1),
            parts=base.select("BENCH_ONLY", given.get("BENCH_ONLY", ""), PARTS),
            results=Path(given.get("BENCH_RESULTS", default.results)),
            docs=Path(given.get("BENCH_DOCS", default.docs)),
        )
