"""Seeds, sizes and stores of the crash tests: SWATH_SEED repeats a run, SWATH_SOAK makes it longer and fresh."""

import os
import random
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Server, fresh_database
from tests.crash.places import Place, postgres_place, sqlite_place

SOAK = os.environ.get("SWATH_SOAK") == "1"
GIVEN_SEED = os.environ.get("SWATH_SEED")
FIXED_SEED = 20_250_101
SEED = int(GIVEN_SEED) if GIVEN_SEED else random.SystemRandom().randrange(2**32) if SOAK else FIXED_SEED

TIMEOUT = 1_800 if SOAK else 120  # seconds for one test

DURABLE = ("sqlite", "postgres")


def pytest_report_header() -> str:
    return f"crash: SWATH_SEED={SEED}"


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A number that differs from test to test and follows from SWATH_SEED."""
    print(f"SWATH_SEED={SEED} repeats this")
    return zlib.crc32(request.node.name.encode()) ^ (SEED % 2**32)


@pytest.fixture
def scale() -> int:
    """How many times the usual size."""
    return 5 if SOAK else 1


@pytest.fixture(params=DURABLE)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Where a fresh frontier can be made: one file, or one schema."""
    if request.param == "sqlite":
        yield sqlite_place(tmp_path)
        return
    server: Server = request.getfixturevalue("postgres")
    with fresh_database(server) as url:
        yield postgres_place(url)
