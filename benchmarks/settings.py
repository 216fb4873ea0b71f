"""What a run measures and for how long, from the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

N = TypeVar("N", int, float)

PARTS = ("moves", "flatness", "runner", "sink", "peers", "size")
STORES = ("sqlite", "postgres")
BATCHES = (1, 10, 100, 500)
PROCESSES = (1, 2, 4)
ITEMS_PER_LANE = 20
FEWEST_ITEMS = 1_000
MOVES_ITEMS = 2_000_000  # what the moves are measured on, where BENCH_ITEMS is larger
PEER_ITEMS = 20_000  # what every queue of the comparison is given
FLAT_SIZES = (100_000, 1_000_000)  # and BENCH_ITEMS
FULL_ITEMS = 1_000_000  # a run with fewer, or shorter, tells whether the benchmark works and not how fast swath is
FULL_SECONDS = 3.0

# A server of 2 GB on a machine of its own. Nothing here touches durability: fsync, synchronous_commit and
# full_page_writes are as PostgreSQL ships them, and are read back into the results.
POSTGRES = "shared_buffers=1GB,max_wal_size=4GB,checkpoint_timeout=5min,maintenance_work_mem=256MB"

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Settings:
    items: int = 10_000_000
    seconds: float = 5.0
    parts: tuple[str, ...] = PARTS
    stores: tuple[str, ...] = STORES
    batches: tuple[int, ...] = BATCHES
    processes: tuple[int, ...] = PROCESSES
    peer_items: int = PEER_ITEMS
    postgres: tuple[tuple[str, str], ...] = ()
    results: Path = HERE / "results"
    docs: Path = HERE.parent / "docs" / "benchmarks.md"

    @property
    def sizes(self) -> list[int]:
        """The sizes at which latency is compared, smallest first."""
        return sorted({size for size in FLAT_SIZES if size < self.items} | {self.items})

    @property
    def moves_items(self) -> int:
        return min(self.items, MOVES_ITEMS)

    @property
    def trial(self) -> bool:
        """Whether the run is too small to say how fast anything is."""
        return self.items < FULL_ITEMS or self.seconds < FULL_SECONDS

    @classmethod
    def from_environment(cls, given: Mapping[str, str] = os.environ) -> "Settings":
        default = cls()
        items = number("BENCH_ITEMS", given.get("BENCH_ITEMS", str(default.items)), least=FEWEST_ITEMS)
        peer_items = number("BENCH_PEER_ITEMS", given.get("BENCH_PEER_ITEMS", str(PEER_ITEMS)), least=FEWEST_ITEMS)
        return cls(
            items=items,
            seconds=number("BENCH_SECONDS", given.get("BENCH_SECONDS", str(default.seconds)), least=0.1),
            parts=chosen("BENCH_ONLY", given.get("BENCH_ONLY", ""), PARTS),
            stores=chosen("BENCH_STORES", given.get("BENCH_STORES", ""), STORES),
            batches=tuple(map(int, chosen("BENCH_BATCHES", given.get("BENCH_BATCHES", ""), _texts(BATCHES)))),
            processes=tuple(map(int, chosen("BENCH_PROCESSES", given.get("BENCH_PROCESSES", ""), _texts(PROCESSES)))),
            peer_items=min(peer_items, items),
            postgres=pairs("BENCH_POSTGRES", given.get("BENCH_POSTGRES", POSTGRES)),
            results=Path(given.get("BENCH_RESULTS", default.results)),
            docs=Path(given.get("BENCH_DOCS", default.docs)),
        )


def number(name: str, text: str, *, least: N) -> N:
    try:
        value = type(least)(text.replace("_", ""))
    except ValueError:
        raise SystemExit(f"{name}={text!r} is not a number") from None
    if value < least:
        raise SystemExit(f"{name}={text!r}: at least {least}")
    return value


def chosen(name: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Those of a comma-separated list, in our order; all of them when it is empty."""
    wanted = {word.strip() for word in text.split(",") if word.strip()}
    if unknown := wanted - set(known):
        raise SystemExit(f"{name}={text!r}: {', '.join(sorted(unknown))} is none of {', '.join(known)}")
    return tuple(word for word in known if not wanted or word in wanted)


def pairs(name: str, text: str) -> tuple[tuple[str, str], ...]:
    pairs = [word.partition("=") for word in text.split(",") if word.strip()]
    if wrong := [key for key, equals, _ in pairs if not equals]:
        raise SystemExit(f"{name}={text!r}: {wrong[0]!r} has no value, as in shared_buffers=1GB")
    return tuple((key.strip(), value.strip()) for key, _, value in pairs)


def _texts(numbers: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(map(str, numbers))
