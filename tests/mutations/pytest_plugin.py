"""What pytest does in a copy: record what each test runs, or run chosen tests in the order given."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutations.probes import Probes

RECORD_TO = "SWATH_RECORD_TO"
RUN_ORDER = "SWATH_RUN_ORDER"


class Recorder:
    """Append a line for each test: its name, how long it took, whether it passed, what it ran."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._probes = Probes(Path(os.environ["SWATH_PROBES"]))
        self._number = 0
        self._passed = True
        self._collected: set[str] = set()
        self._probes.start(0)

    def pytest_collection_finish(self) -> None:
        """What runs while a file is collected, such as for the values of its parameters, counts for all its tests."""
        self._collected = self._probes.read(0)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        import swath_probes  # type: ignore[import-not-found]  # exists only in the copy

        self._number += 1
        self._passed = True
        self._probes.start(self._number)
        swath_probes.restart()
        started = time.monotonic()
        result = yield
        line = {
            "test": item.nodeid,
            "seconds": round(time.monotonic() - started, 3),
            "passed": self._passed,
            "runs": sorted(self._collected | self._probes.read(self._number)),
        }
        with self._target.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._passed = self._passed and report.passed


class Order:
    """Run the tests that a file names, in its order, each with a time limit of its own."""

    def __init__(self, source: Path) -> None:
        self._limits: dict[str, float] = json.loads(source.read_text(encoding="utf-8"))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        places = {test: place for place, test in enumerate(self._limits)}
        items[:] = sorted((item for item in items if item.nodeid in places), key=lambda item: places[item.nodeid])
        for item in items:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(self._limits[item.nodeid]))


def pytest_configure(config: pytest.Config) -> None:
    if target := os.environ.get(RECORD_TO):
        config.pluginmanager.register(Recorder(Path(target)))
    if source := os.environ.get(RUN_ORDER):
        config.pluginmanager.register(Order(Path(source)))
