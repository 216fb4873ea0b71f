"""The processes of a crash test: started, killed, stopped and continued one by one, and never left behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import swath
from tests.crash.children import stop
from tests.crash.journal import Log, read_lines, read_log
from tests.crash.workload import Workload

ROOT = Path(__file__).parents[2]
POLL_SECONDS = 0.01
MOST_MEMBERS = 500  # processes that one test starts, at the most


@dataclass(slots=True, eq=False)
class Member:
    """One process, and what it leaves behind."""

    name: str
    process: subprocess.Popen[bytes]
    journal: Path
    errors: Path
    doomed: bool  # it was told to kill itself at some point

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def written(self) -> int:
        """Bytes of its journal: that it grows is the sign of progress to wait for."""
        return self.journal.stat().st_size if self.journal.exists() else 0

    def said(self, event: str) -> list[dict[str, Any]]:
        return [line for line in read_lines(self.journal) if line["event"] == event] if self.written else []

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> None:
        stop(self.process.pid)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.wait(10)

    def tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b".")
        self.process.stdin.flush()


class Crew:
    """Starts workers on one frontier. On leaving, all of them are ended."""

    def __init__(self, directory: Path, url: str, workload: Workload, *, seed: int, lease: float) -> None:
        self.members: list[Member] = []
        self._directory = directory
        self._url = url
        self._workload = workload
        self._seed = seed
        self._lease = lease

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            if member.alive:
                member.kill()
            assert member.process.stdin is not None
            member.process.stdin.close()
        if error is not None:
            error.add_note(self._last_words())

    def spawn(self, mode: str, **options: Any) -> Member:
        number = len(self.members)
        assert number < MOST_MEMBERS
        name = f"{mode}-{number}"
        journal, errors = self._directory / f"{name}.journal", self._directory / f"{name}.errors"
        given = {
            "name": name,
            "mode": mode,
            "url": self._url,
            "journal": str(journal),
            "seed": self._seed * 1_000 + number,
            "lease": self._lease,
            "workload": self._workload.as_json(),
            **options,
        }
        # The child works with the very code that this process tests.
        path = os.pathsep.join([str(Path(swath.__file__).parents[1]), str(ROOT), os.environ.get("PYTHONPATH", "")])
        with errors.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.crash.worker", json.dumps(given)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        member = Member(name, process, journal, errors, doomed="die_at" in options or "poison" in options)
        self.members.append(member)
        return member

    @property
    def alive(self) -> list[Member]:
        return [member for member in self.members if member.alive]

    @property
    def written(self) -> int:
        return sum(member.written for member in self.members)

    def log(self) -> Log:
        return read_log(member.journal for member in self.members if member.journal.exists())

    async def progress(self, more: int, *, seconds: float) -> None:
        """Wait until `more` bytes were logged, or for so long that there seems to be nothing to log."""
        target = self.written + more
        with suppress(TimeoutError):
            await until(lambda: self.written >= target, seconds=seconds)

    async def finish(self, *, seconds: float) -> None:
        """Wait until those that are alive have ended by themselves, and well."""
        waited_for = self.alive
        await until(lambda: not any(member.alive for member in waited_for), seconds=seconds)
        failed = {
            member.name: member.process.returncode
            for member in waited_for
            if member.process.returncode and not (member.doomed and member.process.returncode == -signal.SIGKILL)
        }
        assert not failed, f"workers ended with an error: {failed}"

    def _last_words(self) -> str:
        texts = [(member, member.errors.read_text(errors="replace")[-1_500:]) for member in self.members]
        said = [f"{member.name} ({member.process.returncode}): {text}" for member, text in texts if text.strip()]
        logged = [
            f"{member.name} logged {read_lines(member.journal)[-3:]}" for member in self.members if member.written
        ]
        return "what the workers said last:\n" + "\n".join([*said[-12:], *logged[-12:]])


async def until(condition: Callable[[], bool], *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it did not come about within {seconds} s")
        await asyncio.sleep(POLL_SECONDS)
