"""The descriptor limit, tested in child processes: a lowered hard limit cannot be raised again."""

import subprocess
import sys

PROGRAM = """
import resource, sys
soft, hard, wanted = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
from swath.crawl.fd_limit import limit_workers
allowed, warning = limit_workers(wanted, in_use=10)
print(allowed, resource.getrlimit(resource.RLIMIT_NOFILE)[0], warning)
"""


def run(*, soft: int, hard: int, wanted: int) -> tuple[int, int, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(soft), str(hard), str(wanted)], capture_output=True, text=True, check=True
    )
    allowed, limit, warning = done.stdout.strip().split(" ", 2)
    return int(allowed), int(limit), warning


def test_the_soft_limit_is_raised_as_far_as_needed() -> None:
    assert run(soft=256, hard=4096, wanted=500) == (500, 1128, "None")


def test_a_sufficient_limit_is_not_changed() -> None:
    assert run(soft=2000, hard=4096, wanted=500) == (500, 2000, "None")


def test_a_low_hard_limit_reduces_the_workers_with_a_warning() -> None:
    allowed, limit, warning = run(soft=256, hard=512, wanted=500)
    assert (allowed, limit) == ((512 - 128) // 2, 512)
    assert "500 workers need 1128 open files" in warning
    assert "continuing with 192 workers" in warning
    assert "ulimit -n 1128" in warning


def test_there_is_always_one_worker() -> None:
    assert run(soft=64, hard=64, wanted=500)[0] == 1
