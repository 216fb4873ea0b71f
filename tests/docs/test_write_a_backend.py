"""The example of "Write a backend" runs as shown, and passes the conformance suite."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_docs import BLOCK, ROOT

PAGE = (ROOT / "docs/write-a-backend.md").read_text()
STORE, USE, SUITE = BLOCK.findall(PAGE)
WRONG = """
import swath

try:
    swath.open("timed:disk")
except swath.InvalidStoreURL as error:
    print(error)
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The example as an installed package."""
    (tmp_path / "timed_store.py").write_text(STORE)
    metadata = tmp_path / "timed_store-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: timed-store\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[swath.backends]\ntimed = timed_store:TimedBackend\n")
    return tmp_path


def run(package: Path, *command: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run(
        [sys.executable, *command], cwd=package, env=env, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_is_found_by_its_scheme_and_prints_what_the_page_says(package: Path) -> None:
    (package / "use.py").write_text(USE)
    assert f"```\n{run(package, 'use.py')}```" in PAGE
    assert '[project.entry-points."swath.backends"]\ntimed = "timed_store:TimedBackend"' in PAGE


def test_the_example_names_a_url_that_it_cannot_open(package: Path) -> None:
    (package / "wrong.py").write_text(WRONG)
    assert run(package, "wrong.py") == "'timed:disk' names a store that cannot be measured: use timed:memory\n"


def test_the_example_passes_the_conformance_suite(package: Path) -> None:
    (package / "test_timed_store.py").write_text(SUITE)
    out = run(package, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider", "test_timed_store.py")
    assert " passed" in out
    assert "failed" not in out
