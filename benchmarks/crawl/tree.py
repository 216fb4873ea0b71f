"""CPU time and peak memory of a process and all its descendants."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
LOOK_SECONDS = 0.1
ABORT_SECONDS = 30.0  # for the traceback of an aborted program


class ContestantFailed(Exception):
    """A crawler failed or did not finish in time."""


@dataclass(frozen=True, slots=True)
class Used:
    """What a program and its children used."""

    cpu_seconds: float
    system_seconds: float  # of these
    seconds: float
    peak_rss_mb: float
    output: str


def run(command: Sequence[str], *, environment: Mapping[str, str], cwd: Path, timeout: float, codes: set[int]) -> Used:
    """Run a program and measure it. Its CPU time is the kernel's, including every child it waited for.

    A program that takes longer than `timeout` is aborted, so that Python prints the stack of each thread.
    """
    began = time.monotonic()
    errors = cwd / "errors.log"
    with errors.open("wb") as log:
        program = subprocess.Popen(
            command, cwd=cwd, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
        )
    watch = Watch(program.pid)
    late = (
        threading.Timer(timeout, program.send_signal, [signal.SIGABRT]),
        threading.Timer(timeout + ABORT_SECONDS, program.kill),
    )
    for timer in late:
        timer.start()
    try:
        assert program.stdout is not None
        with program.stdout:
            output = program.stdout.read().decode(errors="replace")
        _, status, used = os.wait4(program.pid, 0)
    except BaseException:
        program.kill()
        raise
    finally:
        for timer in late:
            timer.cancel()
        watch.end()
    seconds = time.monotonic() - began
    program.returncode = os.waitstatus_to_exitcode(status)
    if program.returncode not in codes:
        message = errors.read_text(errors="replace")[-2000:]
        ended = f"did not finish within {timeout:g} s" if seconds >= timeout else f"exited with {program.returncode}"
        raise ContestantFailed(f"{' '.join(command[:3])} … {ended}: {message}")
    return Used(used.ru_utime + used.ru_stime, used.ru_stime, seconds, watch.peak / 2**20, output)


class Watch:
    """Peak memory of a process and its descendants, sampled ten times a second."""

    def __init__(self, pid: int) -> None:
        self.peak = 0
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self.peak = max(self.peak, sum(map(_rss, tree(self._pid))))


def tree(pid: int) -> list[int]:
    """Return the ids of a process and its living descendants."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _stat(int(name))):
            children.setdefault(int(fields[1]), []).append(int(name))
    found = [pid]
    for one in found:
        found += children.get(one, ())
    return found


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a server and its children so far, including those that have exited."""
    ticks = 0
    for one in tree(pid):
        if fields := _stat(one):
            ticks += sum(map(int, fields[11:13]))
            if one == pid:
                ticks += sum(map(int, fields[13:15]))
    return ticks / TICKS


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name; none if the process has exited."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def _rss(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[21]) * PAGE if fields else 0
