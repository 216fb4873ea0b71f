"""The output files of one directory, kept in step with what the store has committed (INV-5).

For every settlement: `append` its records, `sync`, settle with `moves()`, then `commit`; or `cut` when the settlement
did not take place. After a crash `recover` is told what the store holds and takes away everything beyond it. So the
files hold each settled record exactly once, whatever happened at whatever moment.

Everything here blocks: an event loop hands it to a thread. Calls come one at a time.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from swath.core.errors import SwathError, UsageError
from swath.core.store import OutputMove
from swath.files.rotation import FileSeries

BUFFERS_AT_ONCE = 512  # below what any system takes in one call


class OutputBusy(SwathError):
    """Another process writes to this directory."""


class OutputDamaged(SwathError):
    """A file is shorter than what was committed: something else has cut it."""


class RecordLocation(NamedTuple):
    """Where a record went."""

    file: str
    offset: int
    length: int


class Recovery(NamedTuple):
    """What `recover` did, and which committed files are no longer in the directory."""

    truncated: list[OutputMove]
    removed: list[str]
    missing: list[str]


class _OpenFile:
    """A file that is open for appending. What lies beyond `committed` is not there yet, as far as anybody is told."""

    __slots__ = ("committed", "descriptor", "end", "name", "synced")

    def __init__(self, name: str, descriptor: int, committed: int) -> None:
        self.name = name
        self.descriptor = descriptor
        self.committed = committed
        self.end = committed
        self.synced = committed


class _SeriesWriter:
    """One series: the file that is written to, and those that this settlement has filled."""

    __slots__ = ("current", "serial", "series", "touched")

    def __init__(self, series: FileSeries) -> None:
        self.series = series
        self.serial = 0  # the next one
        self.current: _OpenFile | None = None
        self.touched: list[_OpenFile] = []  # in the order in which they were written to


class OutputDirectory:
    """The owner of a directory's output files. A second owner is refused."""

    def __init__(self, directory: Path, *, series: Sequence[FileSeries], timestamp: Callable[[], str]) -> None:
        """`timestamp` gives the 17 digits of a new file's name."""
        self.directory = directory
        self._timestamp = timestamp
        self._writers = {one.name: _SeriesWriter(one) for one in series}
        if len(self._writers) < len(series):
            raise UsageError(f"two series have one name: {', '.join(one.name for one in series)}")
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._lock = _acquire_lock(directory / f"{series[0].unique}.lock")
        self._recovered = False
        self._new_names = False

    def recover(self, committed: Mapping[str, int]) -> Recovery:
        """Bring the files to the lengths that the store holds: before anything is written, or after the store itself
        has gone back. Files of our series that the store does not know are removed; files that it knows and that are
        gone are reported."""
        self._close_files()
        present = set(os.listdir(self.directory))
        self._check_lengths(committed, present)
        cut, removed = [], []
        for writer in self._writers.values():
            last: str | None = None
            for serial, name in writer.series.select(present | committed.keys()):
                writer.serial = max(writer.serial, serial + 1)
                if name not in present:
                    continue
                if name in committed:
                    last = name
                    if (length := self._path(name).stat().st_size) > committed[name]:
                        _truncate_file(self._path(name), committed[name])
                        cut.append(OutputMove(name, length, committed[name]))
                else:
                    self._path(name).unlink()
                    removed.append(name)
            if last is not None and committed[last] < writer.series.size:
                writer.current = self._open(last, committed[last], os.O_RDWR)
        os.fsync(self._directory)
        self._recovered = True
        return Recovery(cut, removed, sorted(committed.keys() - present))

    def append(self, series: str, records: Iterable[bytes]) -> list[RecordLocation]:
        """Write records after what is there. They count once `commit` has been called."""
        if not self._recovered:
            raise UsageError("append() before recover(): what a crash may have left would be kept")
        writer = self._writers[series]
        placed: list[RecordLocation] = []
        pending: list[bytes] = []
        file = writer.current
        if file is not None:
            check_undamaged(self._path(file.name), file.descriptor, file.end)
        for record in records:
            if file is None or file.end >= writer.series.size:
                _flush(file, pending)
                file = self._next_file(writer)
            if not writer.touched or writer.touched[-1] is not file:
                writer.touched.append(file)
            placed.append(RecordLocation(file.name, file.end, len(record)))
            file.end += len(record)
            pending.append(record)
        _flush(file, pending)
        return placed

    def sync(self) -> None:
        """Return when all that was appended is on disk."""
        for file in self._touched_files():
            if file.synced < file.end:
                os.fdatasync(file.descriptor)
                file.synced = file.end
        if self._new_names:
            os.fsync(self._directory)
            self._new_names = False

    def moves(self) -> list[OutputMove]:
        """What the settlement has to commit: every file that grew, from which length to which."""
        return [OutputMove(file.name, file.committed, file.end) for file in self._touched_files()]

    def commit(self) -> None:
        """The store has confirmed the settlement: what was appended stays."""
        for writer in self._writers.values():
            for file in writer.touched:
                file.committed = file.end
                if file is not writer.current:
                    os.close(file.descriptor)
            writer.touched.clear()

    def rollback(self) -> None:
        """The settlement did not take place: back to what the store holds."""
        for writer in self._writers.values():
            while writer.touched:
                file = writer.touched[-1]
                if file.committed:
                    if os.fstat(file.descriptor).st_size > file.committed:  # else it would grow
                        os.ftruncate(file.descriptor, file.committed)
                    file.end = file.synced = file.committed
                    writer.current = file
                else:
                    self._path(file.name).unlink(missing_ok=True)
                    os.close(file.descriptor)
                    if writer.current is file:
                        writer.current = None
                writer.touched.pop()

    def close(self) -> None:
        """Let another owner in. What was appended and not committed stays, for `recover` to decide on: a settlement
        whose reply nobody waited for may have taken place."""
        if self._lock >= 0:
            self._close_files()
            os.close(self._directory)
            os.close(self._lock)
            self._lock = -1

    def _close_files(self) -> None:
        """Close all files as they are."""
        for writer in self._writers.values():
            opened = {file.descriptor for file in writer.touched}
            if writer.current is not None:
                opened.add(writer.current.descriptor)
            writer.touched.clear()
            writer.current = None
            for descriptor in opened:
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _touched_files(self) -> list[_OpenFile]:
        return [file for writer in self._writers.values() for file in writer.touched]

    def _path(self, name: str) -> Path:
        return self.directory / name

    def _next_file(self, writer: _SeriesWriter) -> _OpenFile:
        """Begin a file. The one before it is closed by `commit`, or now if this settlement has not written to it."""
        if writer.current is not None and writer.current not in writer.touched:
            os.close(writer.current.descriptor)
            writer.current = None
        name = writer.series.file_name(self._timestamp(), writer.serial)
        writer.serial += 1
        file = self._open(name, 0, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        writer.current = file
        writer.touched.append(file)
        self._new_names = True
        if writer.series.first_record is not None:
            first = writer.series.first_record(name)
            file.end += len(first)
            _write(file.descriptor, [first], 0)
        return file

    def _open(self, name: str, committed: int, flags: int) -> _OpenFile:
        return _OpenFile(name, os.open(name, flags | os.O_CLOEXEC, 0o644, dir_fd=self._directory), committed)

    def _check_lengths(self, committed: Mapping[str, int], present: set[str]) -> None:
        """Before anything is changed: nothing can be appended where committed records are gone."""
        for name, length in committed.items():
            if name in present and (found := self._path(name).stat().st_size) < length:
                raise OutputDamaged(
                    f"{self._path(name)} is {found} bytes long and {length} are committed: records are gone. "
                    "Put the file back from a copy, or move it away to go on without it."
                )


def check_undamaged(path: Path, descriptor: int, end: int) -> None:
    """Before anything is written: it would go into a file that nobody finds, or beyond a gap."""
    found = os.fstat(descriptor)
    gone = not found.st_nlink and not path.exists()  # some file systems have no number of links
    if gone or found.st_size < end:
        how = "is gone" if gone else f"is {found.st_size} bytes long and not {end}"
        raise OutputDamaged(f"{path} {how}: something else has changed it while it was written to")


def _acquire_lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(descriptor, 100).decode(errors="replace").strip() or "an unknown process"
        os.close(descriptor)
        raise OutputBusy(
            f"{path.parent} is being written to by {owner}. Wait until that has ended, or give another directory."
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} on {os.uname().nodename}\n".encode(), 0)
    return descriptor


def _flush(file: _OpenFile | None, pending: list[bytes]) -> None:
    if file is not None and pending:
        _write(file.descriptor, pending, file.end - sum(map(len, pending)))
        pending.clear()


def _write(descriptor: int, records: Sequence[bytes], offset: int) -> None:
    """All of the records, at `offset`; the system may take fewer bytes at a time than it is given."""
    for start in range(0, len(records), BUFFERS_AT_ONCE):
        buffers: list[bytes | memoryview] = [*records[start : start + BUFFERS_AT_ONCE]]
        while buffers:
            taken = os.pwritev(descriptor, buffers, offset)
            offset += taken
            while buffers and taken >= len(buffers[0]):
                taken -= len(buffers.pop(0))
            if taken:
                buffers[0] = memoryview(buffers[0])[taken:]


def _truncate_file(path: Path, length: int) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.ftruncate(descriptor, length)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
