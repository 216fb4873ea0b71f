"""The command in a process of its own that need not start from nothing: one that has loaded all of it, and forks.

Starting takes ten times as long as most commands. How one starts is looked at by `test_start`, and by all who run
COMMAND.
"""

import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

MESSAGE_BYTES = 2**17
ROOT = Path(__file__).parents[2]  # so that the process finds `tests` wherever the first test runs


class Forks:
    """This side: asks for one command after the other."""

    def __init__(self) -> None:
        self._socket, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            command = [sys.executable, "-m", __name__, str(there.fileno())]
            self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=[there.fileno()], start_new_session=True)
        atexit.register(self.close)

    def run(
        self, args: Sequence[str], *, stdin: bytes, env: Mapping[str, str], timeout: float
    ) -> tuple[int, bytes, bytes]:
        """The exit code and what was written to standard output and standard error."""
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            asked = json.dumps({"args": args, "env": dict(env), "cwd": os.getcwd()}).encode()
            socket.send_fds(self._socket, [asked], [file.fileno() for file in (given, out, err)])
            self._socket.settimeout(timeout)
            try:
                code = int(self._socket.recv(MESSAGE_BYTES))
            except TimeoutError:
                os.killpg(self._process.pid, signal.SIGKILL)
                forks.cache_clear()  # the next command has another
                raise
            out.seek(0)
            err.seek(0)
            return code, out.read(), err.read()

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@functools.cache
def forks() -> Forks:
    return Forks()


def serve(asking: socket.socket) -> None:
    """The other side: returns in a child, which is to run the command, and when nobody asks any more."""
    while True:
        asked, files, _, _ = socket.recv_fds(asking, MESSAGE_BYTES, 3)
        if not asked:
            sys.exit()
        child = os.fork()
        if child == 0:
            asking.close()
            become(files, **json.loads(asked))
            return
        for file in files:
            os.close(file)
        _, status = os.waitpid(child, 0)
        asking.send(str(os.waitstatus_to_exitcode(status)).encode())


def become(files: Sequence[int], *, args: Sequence[str], env: Mapping[str, str], cwd: str) -> None:
    """What a new process would find."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = ["swath", *args]
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115


if __name__ == "__main__":
    import swath.backends.postgres
    import swath.backends.sqlite  # noqa: F401
    from swath.cli import app, main

    app.load_commands()
    serve(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(main())
