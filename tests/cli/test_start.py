"""A command loads what it needs: somebody waits for it."""

import subprocess
import sys

import pytest

from tests.cli.conftest import TIMEOUT, environment

LOADED = """
import sys
from swath.cli import main
sys.argv[0] = "/usr/bin/swath"
main()
print(*sys.modules, file=sys.stderr)
"""


def loaded(*args: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *args],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
        env=environment(),
    )
    return set(done.stderr.split())


@pytest.mark.parametrize("args", [["explain", "--help"], ["--version"]])
def test_no_other_job_is_loaded(args: list[str]) -> None:
    jobs = {"swath.crawl", "swath.backfill", "swath.scan"}
    assert loaded(*args) & jobs == (jobs if args == ["--version"] else set())


def test_the_command_line_is_light() -> None:
    """What reads options reads them without a library of validators, which takes longer to load than all of swath."""
    assert "pydantic" not in loaded("explain", "--help")
