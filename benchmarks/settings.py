"""The settings of a benchmark run, from environment variables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

N = TypeVar("N", int, float)

PARTS = ("moves", "claimers", "flatness", "runner", "sink", "peers", "size")
STORES = ("sqlite", "postgres")
BATCHES = (1, 10, 100, 500)
PROCESSES = (1, 2, 4)
ITEMS_PER_LANE = 20
FEWEST_ITEMS = 1_000
MOVES_ITEMS = 2_000_000  # maximum size of the frontiers for the parts `moves` and `claimers`
PEER_ITEMS = 20_000  # items for each queue in the comparison
FLAT_SIZES = (100_000, 1_000_000)  # and BENCH_ITEMS
FULL_ITEMS = 1_000_000  # a smaller or shorter run is a trial: it shows that the benchmark works, not how fast swath is
FULL_SECONDS = 3.0

# For a server with 2 GB. Durability stays at PostgreSQL's defaults (fsync, synchronous_commit, full_page_writes); the
# results include the values that the server reports.
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
        """The sizes for the part `flatness`, smallest first."""
        return sorted({size for size in FLAT_SIZES if size < self.items} | {self.items})

    @property
    def moves_items(self) -> int:
        return min(self.items, MOVES_ITEMS)

    @property
    def trial(self) -> bool:
        """Whether the run is too small or too short for its figures to mean anything."""
        return self.items < FULL_ITEMS or self.seconds < FULL_SECONDS

    @classmethod
    def from_environment(cls, given: Mapping[str, str] = os.environ) -> "Settings":
        default = cls()
        items = parse_number("BENCH_ITEMS", given.get("BENCH_ITEMS", str(default.items)), least=FEWEST_ITEMS)
        peer_items = parse_number(
            "BENCH_PEER_ITEMS", given.get("BENCH_PEER_ITEMS", str(PEER_ITEMS)), least=FEWEST_ITEMS
        )
        return cls(
            items=items,
            seconds=parse_number("BENCH_SECONDS", given.get("BENCH_SECONDS", str(default.seconds)), least=0.1),
            parts=select("BENCH_ONLY", given.get("BENCH_ONLY", ""), PARTS),
            stores=select("BENCH_STORES", given.get("BENCH_STORES", ""), STORES),
            batches=tuple(map(int, select("BENCH_BATCHES", given.get("BENCH_BATCHES", ""), _texts(BATCHES)))),
            processes=tuple(map(int, select("BENCH_PROCESSES", given.get("BENCH_PROCESSES", ""), _texts(PROCESSES)))),
            peer_items=min(peer_items, items),
            postgres=parse_pairs("BENCH_POSTGRES", given.get("BENCH_POSTGRES", POSTGRES)),
            results=Path(given.get("BENCH_RESULTS", default.results)),
            docs=Path(given.get("BENCH_DOCS", default.docs)),
        )


def parse_number(name: str, text: str, *, least: N) -> N:
    try:
        value = type(least)(text.replace("_", ""))
    except ValueError:
        raise SystemExit(f"{name}={text!r} is not a number") from None
    if value < least:
        raise SystemExit(f"{name}={text!r}: at least {least}")
    return value


def select(name: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a comma-separated list, in the order of `known`; all of them if the list is empty."""
    wanted = {word.strip() for word in text.split(",") if word.strip()}
    if unknown := wanted - set(known):
        raise SystemExit(f"{name}={text!r}: {', '.join(sorted(unknown))} is not one of {', '.join(known)}")
    return tuple(word for word in known if not wanted or word in wanted)


def parse_pairs(name: str, text: str) -> tuple[tuple[str, str], ...]:
    pairs = [word.partition("=") for word in text.split(",") if word.strip()]
    if wrong := [key for key, equals, _ in pairs if not equals]:
        raise SystemExit(f"{name}={text!r}: {wrong[0]!r} has no value, as in shared_buffers=1GB")
    return tuple((key.strip(), value.strip()) for key, _, value in pairs)


def _texts(numbers: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(map(str, numbers))
