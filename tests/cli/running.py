"""A `swath` command that runs while a test does something to it."""

import codecs
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.conftest import COMMAND, TIMEOUT, environment


class Running:
    """A command, and all that it has printed to standard output and standard error so far."""

    def __init__(self, *args: str, cwd: Path | None = None, stdin: int | None = None) -> None:
        self.text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.process = subprocess.Popen(
            [*COMMAND, *args], cwd=cwd, env=environment(), stdin=stdin,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def says(self, *texts: str) -> str:
        """Wait until the command has printed all of these texts, and return all that it has printed."""
        deadline = time.monotonic() + TIMEOUT
        while not all(text in self.text for text in texts):
            assert self._read(deadline), f"it did not say {texts!r} but {self.text!r}"
        return self.text

    def _read(self, deadline: float) -> bool:
        assert self.process.stdout is not None
        fd = self.process.stdout.fileno()
        if not select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        block = os.read(fd, 65_536)
        self.text += self._decoder.decode(block)  # a block may end within a character
        return bool(block)

    def signal(self, number: signal.Signals = signal.SIGINT) -> None:
        self.process.send_signal(number)

    def ends(self) -> int:
        """Wait until the command has ended, and return its exit code."""
        deadline = time.monotonic() + TIMEOUT
        while self._read(deadline):
            pass
        return self.process.wait(TIMEOUT)


@contextmanager
def running(*args: str, cwd: Path | None = None, stdin: int | None = None) -> Iterator[Running]:
    command = Running(*args, cwd=cwd, stdin=stdin)
    try:
        yield command
    finally:
        if command.process.poll() is None:
            os.killpg(command.process.pid, signal.SIGKILL)
            command.process.wait(TIMEOUT)
        assert command.process.stdout is not None
        command.process.stdout.close()
