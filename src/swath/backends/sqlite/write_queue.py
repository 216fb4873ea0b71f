"""Fair turns between the processes that write to one file (rule 11).

SQLite's own lock is taken by whoever happens to ask at the right moment: of eight busy processes six got one
transaction in twelve seconds. So writers queue first, with tickets, in a small file beside the database: each locks the
byte of its own ticket and waits until its predecessor's byte is free. The kernel frees the locks of a process that
dies. It is about fairness only: that one writes at a time is SQLite's doing, and a process that is stopped in the queue
is passed after a moment. Nobody waits in the kernel for a lock: a stopped process would be given it all the same.
"""

import errno
import fcntl
import os
import stat
import struct
import time
from collections.abc import Callable

PATIENCE_SECONDS = 1.0  # without any progress of the queue, before a predecessor is passed
GATE_POLL_SECONDS = 0.000_05  # it is held for a few system calls
NEXT_POLL_SECONDS = 0.000_25  # of whoever is next in line
POLL_SECONDS = 0.001  # of the others, for each place in line
LONGEST_POLL_SECONDS = 0.02

_GATE = 16  # the byte that is locked while a ticket is drawn; before it the numbers, behind it the tickets
_FIRST_TICKET = 32
_NUMBERS = struct.Struct("<QQ")  # the next ticket, and the one that has the turn
_FLOCK = struct.Struct("hhqqi4x")  # l_type, l_whence, l_start, l_len, l_pid of 64-bit Linux

# Sets a lock that belongs to the open file, not to the process. Missing on macOS.
_SET: int | None = getattr(fcntl, "F_OFD_SETLK", None)


class WriteQueue:
    """A place in the queue of one database file. For one thread."""

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
        self._gate_stuck = False  # somebody was stopped in the gate, and was there when last looked

    @property
    def taken(self) -> bool:
        return self._ticket != 0

    @property
    def waiting(self) -> int:
        """How many have queued up behind this turn, with those that died there."""
        if self._file is None or not self._ticket:
            return 0
        try:
            ticket, _ = self._numbers(self._file)
        except OSError:
            return 0
        return max(ticket - self._ticket - 1, 0)

    def take(self) -> None:
        """Queue, and return when it is this process's turn, or when the queue has stood still for too long."""
        if self._file is None:
            return
        try:
            self._ticket = self._draw(self._file)
            if self._ticket:
                self._await_predecessor(self._file, self._ticket)
                self._mark(self._file, self._ticket)
        except (OSError, struct.error):
            self.close()  # no room for locks or for two numbers, or other numbers: fairness is not worth an error

    def give(self) -> None:
        """Let the next one in."""
        if self._file is not None and self._ticket:
            self._lock(self._file, _FIRST_TICKET + self._ticket, fcntl.F_UNLCK)
            self._ticket = 0

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)  # and with it goes whatever it still holds
            self._file = None

    def _draw(self, file: int) -> int:
        """The next ticket, its byte locked before anybody can draw the one after. None (0) if the gate is stuck."""
        if not self._pass_gate(file):
            return 0
        try:
            ticket, serving = self._numbers(file)
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
            _, serving = self._numbers(file)
            if serving != served:
                served, patient_until = serving, self._monotonic() + self._patience
            elif self._monotonic() > patient_until:
                return  # it is stopped, or somebody writes for very long: SQLite's lock will tell
            places = max(ticket - serving - 1, 0)
            self._sleep(min(places * POLL_SECONDS, LONGEST_POLL_SECONDS) or NEXT_POLL_SECONDS)
        self._lock(file, byte, fcntl.F_UNLCK)

    def _mark(self, file: int, ticket: int) -> None:
        """Tell those behind how far the queue is. Written without the gate: a hint, and it is put right by the next."""
        os.pwrite(file, _NUMBERS.pack(0, ticket)[8:], 8)

    def _numbers(self, file: int) -> tuple[int, int]:
        content = os.pread(file, _NUMBERS.size, 0)
        ticket, serving = _NUMBERS.unpack(content.ljust(_NUMBERS.size, b"\0"))
        return max(ticket, 1), serving

    def _lock(self, file: int, byte: int, kind: int) -> bool:
        """Whether the lock was granted."""
        assert _SET is not None
        try:
            fcntl.fcntl(file, _SET, _FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0))
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True


def _open(path: str) -> int | None:
    """The file, which whoever may write to the database may write to; None where that cannot be."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError:
        return None
    try:
        os.fchmod(file, stat.S_IMODE(os.stat(path.removesuffix("-turn")).st_mode))
    except OSError:
        pass  # it is another user's, who has seen to it
    return file
