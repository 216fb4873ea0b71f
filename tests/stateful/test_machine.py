"""Each store held to the model, and to its promises, by plays that Hypothesis invents."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.backends import ALL, DURABLE, Backend, backend_named
from tests.stateful.conftest import SEED, SOAK
from tests.stateful.machine import FrontierMachine

PLAYS = {"memory": 20, "sqlite": 20, "postgres": 8}
STEPS = 40
SOAK_FACTOR = 5
PHASES = [Phase.generate] if os.environ.get("SWATH_NO_SHRINK") == "1" else [Phase.generate, Phase.shrink]

pytestmark = pytest.mark.timeout(7_200 if SOAK else 600)  # shrinking a failure takes its time


@pytest.fixture(scope="module")
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with backend_named(
        request.param,
        directory=tmp_path_factory.mktemp(request.param),
        server=lambda: request.getfixturevalue("postgres"),
    ) as backend:
        yield backend


def play(backend: Backend, *, partitions: int, exact: bool) -> None:
    class Machine(FrontierMachine):
        def __init__(self) -> None:
            super().__init__(backend.make, partitions=partitions, exact=exact)

    plays = PLAYS[backend.name] * (SOAK_FACTOR if SOAK else 1)
    rules = settings(max_examples=plays, stateful_step_count=STEPS, phases=PHASES)
    try:
        run_state_machine_as_test(Machine if SEED is None else seed(SEED)(Machine), settings=rules)
    except BaseException as error:
        error.add_note("it is the same play every time" if SEED is None else f"SWATH_SEED={SEED} repeats it")
        raise


@pytest.mark.parametrize("backend", DURABLE, indirect=True)
def test_one_partition_does_exactly_as_the_model(backend: Backend) -> None:
    """The same replies, the same places, the same times."""
    play(backend, partitions=1, exact=True)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_several_partitions_do_exactly_as_the_model(backend: Backend) -> None:
    """Where there is one writer there is no inbox, so nothing is left to the store."""
    play(backend, partitions=3, exact=True)


@pytest.mark.parametrize("backend", ALL, indirect=True)
def test_several_partitions_keep_the_promises(backend: Backend) -> None:
    """INV-1 to INV-7; what goes where, and when, is left to the store."""
    play(backend, partitions=3, exact=False)
