"""Real child processes that work on a frontier, and what they say."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0  # seconds after which a child that says or does nothing fails the test


class Child:
    """A Python program in a process of its own. It says what it has reached on standard output, a line each."""

    def __init__(self, program: str, *args: str) -> None:
        paths = [str(ROOT / "src"), str(ROOT)]
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-W", "error", "-c", program, *args],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )  # fmt: skip
        self.said: list[str] = []

    def says(self, line: str) -> None:
        """Wait until it says a line."""
        assert self._process.stdout is not None
        for said in self._process.stdout:
            self.said.append(said.rstrip("\n"))
            if self.said[-1] == line:
                return
        self._process.wait(PATIENCE)
        assert self._process.stderr is not None
        raise AssertionError(f"it never said {line!r} but {self.said}, and ended with {self._process.stderr.read()}")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ends(self) -> tuple[int, str, str, float]:
        """Its exit code, what else it said, what it complained of, and how long that took from now on."""
        began = time.monotonic()
        out, err = self._process.communicate(timeout=PATIENCE)
        return self._process.returncode, out, err, time.monotonic() - began

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(PATIENCE)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def stop(pid: int) -> None:
    """Stop a child of this process, and return when all of its threads stand still: one hears the signal first."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


@contextmanager
def child(program: str, *args: str) -> Iterator[Child]:
    started = Child(program, *args)
    try:
        yield started
    finally:
        started.kill()
