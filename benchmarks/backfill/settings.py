"""What a run measures, from the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks import settings as base

PARTS = ("update", "loop", "swath-1", "swath-2", "swath-4")
FULL_ROWS = 2_000_000
FEWEST_ROWS = 10_000
ROUNDS = 3
TARGET_SECONDS = 0.5  # --target-time
BATCH = 10_000  # rows of the hand-written loop's transactions

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Settings:
    rows: int = FULL_ROWS
    rounds: int = ROUNDS
    batch: int = BATCH
    parts: tuple[str, ...] = PARTS
    postgres: tuple[tuple[str, str], ...] = ()
    results: Path = HERE.parent / "results"
    docs: Path = HERE.parent.parent / "docs" / "benchmarks.md"

    @property
    def trial(self) -> bool:
        """Whether the run is too small to say how fast anything is."""
        return self.rows < FULL_ROWS

    @classmethod
    def from_environment(cls, given: Mapping[str, str] = os.environ) -> "Settings":
        default = cls()
        return cls(
            rows=base.parse_number("BENCH_ROWS", given.get("BENCH_ROWS", str(default.rows)), least=FEWEST_ROWS),
            rounds=base.parse_number("BENCH_ROUNDS", given.get("BENCH_ROUNDS", str(default.rounds)), least=1),
            batch=base.parse_number("BENCH_BATCH", given.get("BENCH_BATCH", str(default.batch)), least=1),
            parts=base.select("BENCH_ONLY", given.get("BENCH_ONLY", ""), PARTS),
            postgres=base.parse_pairs("BENCH_POSTGRES", given.get("BENCH_POSTGRES", base.POSTGRES)),
            results=Path(given.get("BENCH_RESULTS", default.results)),
            docs=Path(given.get("BENCH_DOCS", default.docs)),
        )
