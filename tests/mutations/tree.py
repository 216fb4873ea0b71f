"""A copy of the tree in which code is broken, and pytest in it."""

import itertools
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "docs", "examples", "scripts", "benchmarks", "pyproject.toml", "Makefile")
NEEDLESS_PLUGINS = ("cacheprovider", "hypothesispytest", "xdist")  # importing them takes as long as many tests
MAX_MEMORY_BYTES = 6 * 2**30
MAX_FILE_BYTES = 2**30
TEARDOWN_SECONDS = 20
_NO_TESTS_RAN = 5
_changes = itertools.count(1)


class Outcome(NamedTuple):
    """How pytest ended. `failed` is the first test that failed, if one did."""

    failed: str | None
    timed_out: bool
    output: str


def copy_tree(target: Path) -> None:
    """Copy everything that tests read."""
    names = [*COPIED, *(path.name for path in ROOT.glob("*.md"))]
    for name in names:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target / name)


@contextmanager
def changed_file(path: Path, text: str) -> Iterator[None]:
    """Give a file another text for a while.

    Python recognises an outdated .pyc by the second of the source's last change and its size, and two mutants may
    share both. So each text gets a time of its own.
    """
    before, times = path.read_text(encoding="utf-8"), path.stat()
    path.write_text(text, encoding="utf-8")
    _set_later_time(path)
    try:
        yield
    finally:
        path.write_text(before, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _set_later_time(path: Path) -> None:
    later = path.stat().st_mtime + 10 * next(_changes)
    os.utime(path, (later, later))


def run_pytest(
    copy: Path, arguments: Sequence[str], *, timeout: float, environment: Mapping[str, str] | None = None
) -> Outcome:
    """Run tests of a copy until the first one fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=line"]
    for plugin in NEEDLESS_PLUGINS:
        command += ["-p", f"no:{plugin}"]
    env = {**os.environ, "PYTHONPATH": str(copy / "src"), "SWATH_NO_SHRINK": "1", **(environment or {})}
    with subprocess.Popen(
        [*command, *arguments], cwd=copy, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        # A mutant may fill memory or disk. What pytest starts inherits the limits.
        resource.prlimit(process.pid, resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            return Outcome(None, True, _end(process))
        except KeyboardInterrupt:
            _end(process)
            raise
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    if process.returncode in (0, _NO_TESTS_RAN):
        return Outcome(None, False, output)
    if found is None:
        raise RuntimeError(f"pytest ended with {process.returncode} and named no test:\n{output}")
    return Outcome(found[1], False, output)


def _end(process: "subprocess.Popen[str]") -> str:
    """End pytest. On an interrupt it stops the servers that it started."""
    os.kill(process.pid, signal.SIGINT)
    try:
        output, _ = process.communicate(timeout=TEARDOWN_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    return output
