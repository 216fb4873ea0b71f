"""Child processes: spawned, never forked, controlled over a pipe, and always ended."""

import multiprocessing
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

_SPAWN = multiprocessing.get_context("spawn")
END_SECONDS = 10.0


class ChildFailed(Exception):
    """The child raised an exception or did not answer in time. The message has its traceback."""


class Child:
    """A process that runs `main(connection)` and answers one request at a time."""

    def __init__(self, main: Callable[[Connection], None]) -> None:
        self._connection, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_run, args=(main, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def send(self, request: object) -> None:
        self._connection.send(request)

    def receive(self, *, timeout: float) -> Any:
        if not self._connection.poll(timeout):
            raise ChildFailed(f"no answer within {timeout:.0f} s")
        try:
            failed, answer = self._connection.recv()
        except EOFError:
            raise ChildFailed(f"the process ended with exit code {self._process.exitcode}") from None
        if failed:
            raise ChildFailed(answer)
        return answer

    def ready(self, seconds: float) -> bool:
        return self._connection.poll(seconds)

    def end(self) -> None:
        self._connection.close()  # the child ends when it waits for the next request
        self._process.join(END_SECONDS / 2)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def answer(connection: Connection, value: object) -> None:
    connection.send((False, value))


def _run(main: Callable[[Connection], None], connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends its children
    try:
        main(connection)
    except (EOFError, BrokenPipeError):
        pass  # the parent has closed the connection
    except BaseException:  # noqa: BLE001 the parent reports it
        try:
            connection.send((True, traceback.format_exc(limit=-4).strip()))
        except OSError:
            pass
        raise SystemExit(1) from None
