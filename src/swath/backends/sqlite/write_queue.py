"""WriteQueue: a fair queue for the processes that write to one file.

SQLite's own lock goes to the process that happens to ask at the right moment: of eight busy processes, six got one
transaction in twelve seconds. So writers first draw a ticket in a small file beside the database. Each locks the
byte of its own ticket and waits until its predecessor's byte is unlocked. When a process dies, the kernel releases its
locks.

The queue only makes access fair; SQLite's lock ensures that one process writes at a time. Writers overtake a process
that is stopped (SIGSTOP) in the queue. That is why they poll: if they waited in the kernel, it would give the lock to
the stopped process.
"""

import errno
import fcntl
import os
import stat
import struct
import time
from collections.abc import Callable

PATIENCE_SECONDS = 1.0  # overtake the predecessor when the queue has not moved for this long
GATE_POLL_SECONDS = 0.000_05  # a process holds the gate for a few system calls
NEXT_POLL_SECONDS = 0.000_25  # for the next in line
POLL_SECONDS = 0.001  # for the others, times their distance from the head
LONGEST_POLL_SECONDS = 0.02

_GATE = 16  # this byte is locked while a process draws a ticket; the numbers are before it, the tickets after it
_FIRST_TICKET = 32
_NUMBERS = struct.Struct("<QQ")  # the next ticket, and the ticket that is being served
_FLOCK = struct.Struct("hhqqi4x")  # l_type, l_whence, l_start, l_len, l_pid of 64-bit Linux

# Sets a lock that belongs to the open file, not to the process. Missing on macOS.
_SET: int | None = getattr(fcntl, "F_OFD_SETLK", None)


class WriteQueue:
    """This process's place in the queue of one database file. For use by one thread."""

    def __init__(
        self,
        path: str,
        *,
        patience: float = PATIENCE_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = _open(path) if _SET is not None else None
        self._patience = patience
        self._sleep = sleep
        self._monotonic = monotonic
        self._ticket = 0
        self._gate_stuck = False  # at the last attempt, a stopped process held the gate

    @property
    def is_held(self) -> bool:
        return self._ticket != 0

    @property
    def waiting(self) -> int:
        """The number of writers queued behind this one, including those that died there."""
        if self._file is None or not self._ticket:
            return 0
        try:
            ticket, _ = self._read_numbers(self._file)
        except OSError:
            return 0
        return max(ticket - self._ticket - 1, 0)

    def acquire(self) -> None:
        """Queue, and return when it is this process's turn or when the queue has not moved for too long."""
        if self._file is None:
            return
        try:
            self._ticket = self._draw(self._file)
            if self._ticket:
                self._await_predecessor(self._file, self._ticket)
                self._publish_serving(self._file, self._ticket)
        except (OSError, struct.error):
            self.close()  # write without the queue, because fairness is not worth an error

    def release(self) -> None:
        """Release the turn, so that the next writer can have it."""
        if self._file is not None and self._ticket:
            self._lock(self._file, _FIRST_TICKET + self._ticket, fcntl.F_UNLCK)
            self._ticket = 0

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)  # also releases its locks
            self._file = None

    def _draw(self, file: int) -> int:
        """Draw the next ticket and lock its byte before the gate opens again. Return 0 if the gate is stuck."""
        if not self._pass_gate(file):
            return 0
        try:
            ticket, serving = self._read_numbers(file)
            os.pwrite(file, _NUMBERS.pack(ticket + 1, serving), 0)
            self._lock(file, _FIRST_TICKET + ticket, fcntl.F_WRLCK)
        finally:
            self._lock(file, _GATE, fcntl.F_UNLCK)
        return ticket

    def _pass_gate(self, file: int) -> bool:
        patient_until = self._monotonic() + (0 if self._gate_stuck else self._patience)
        while not self._lock(file, _GATE, fcntl.F_WRLCK):
            if self._monotonic() > patient_until:
                self._gate_stuck = True
                return False
            self._sleep(GATE_POLL_SECONDS)
        self._gate_stuck = False
        return True

    def _await_predecessor(self, file: int, ticket: int) -> None:
        byte = _FIRST_TICKET + ticket - 1
        served = -1
        patient_until = 0.0
        while not self._lock(file, byte, fcntl.F_RDLCK):
            _, serving = self._read_numbers(file)
            if serving != served:
                served, patient_until = serving, self._monotonic() + self._patience
            elif self._monotonic() > patient_until:
                return  # the predecessor is stopped, or its transaction is very long: go on to SQLite's lock
            places = max(ticket - serving - 1, 0)
            self._sleep(min(places * POLL_SECONDS, LONGEST_POLL_SECONDS) or NEXT_POLL_SECONDS)
        self._lock(file, byte, fcntl.F_UNLCK)

    def _publish_serving(self, file: int, ticket: int) -> None:
        """Publish which ticket is being served: a hint, written without the gate, which the next writer corrects."""
        os.pwrite(file, _NUMBERS.pack(0, ticket)[8:], 8)

    def _read_numbers(self, file: int) -> tuple[int, int]:
        content = os.pread(file, _NUMBERS.size, 0)
        ticket, serving = _NUMBERS.unpack(content.ljust(_NUMBERS.size, b"\0"))
        return max(ticket, 1), serving

    def _lock(self, file: int, byte: int, kind: int) -> bool:
        """Try to change a lock and return whether that succeeded."""
        assert _SET is not None
        try:
            fcntl.fcntl(file, _SET, _FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0))
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True


def _open(path: str) -> int | None:
    """Open the queue's file with the permissions of the database; None if that fails."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError:
        return None
    try:
        os.fchmod(file, stat.S_IMODE(os.stat(path.removesuffix("-turn")).st_mode))
    except OSError:
        pass  # the file belongs to another user, who has set its permissions
    return file
