"""Seeds: SWATH_SEED repeats a run, SWATH_SOAK makes it long. Without either, every run is the same."""

import os
import random

import pytest
from hypothesis import HealthCheck, settings

SOAK = os.environ.get("SWATH_SOAK") == "1"
GIVEN_SEED = os.environ.get("SWATH_SEED")
SEED = int(GIVEN_SEED) if GIVEN_SEED else random.SystemRandom().randrange(2**32) if SOAK else None

settings.register_profile(
    "swath",
    deadline=None,
    database=None,
    derandomize=SEED is None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("swath")


def pytest_report_header() -> str:
    return f"stateful: SWATH_SEED={SEED}" if SEED is not None else "stateful: the same every time; SWATH_SEED=n varies"


@pytest.fixture
def play_seed() -> int | None:
    return SEED
