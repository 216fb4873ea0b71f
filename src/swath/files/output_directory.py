"""The output files of one directory, which hold exactly what the store has committed (INV-5).

For each settlement: `append` its records, `sync`, settle with `list_moves()`, then `commit`, or `rollback` if the
settlement failed. After a crash, `recover` truncates the files to the lengths that the store has committed. So the
files contain each settled record exactly once, whenever the crash happened.

All calls block, so an event loop runs them in a thread. Only one call may run at a time.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from swath import OutputMove, UsageError
from swath.files.errors import OutputBusy, OutputDamaged
from swath.files.rotation import FileSeries

BUFFERS_AT_ONCE = 512  # below IOV_MAX of every system


class RecordLocation(NamedTuple):
    """The position of a record in the output files."""

    file: str
    offset: int
    length: int


class Recovery(NamedTuple):
    """The changes that `recover` made, and the committed files that are missing from the directory."""

    truncated: list[OutputMove]
    removed: list[str]
    missing: list[str]


class _OpenFile:
    """A file that is open for appending. Bytes after `committed` are not part of the output yet."""

    __slots__ = ("committed", "descriptor", "end", "name", "synced")

    def __init__(self, name: str, descriptor: int, committed: int) -> None:
        self.name = name
        self.descriptor = descriptor
        self.committed = committed
        self.end = committed
        self.synced = committed


class _SeriesWriter:
    """The open files of one series: the current file, and those that this settlement wrote to."""

    __slots__ = ("current", "finished", "serial", "series", "touched")

    def __init__(self, series: FileSeries) -> None:
        self.series = series
        self.serial = 0  # of the next file
        self.current: _OpenFile | None = None
        self.touched: list[_OpenFile] = []  # in the order of writing
        self.finished: list[str] = []  # committed files that will not change, since `take_finished`


class OutputDirectory:
    """The output files of a directory. A lock file ensures that only one process owns them."""

    def __init__(self, directory: Path, *, series: Sequence[FileSeries], timestamp: Callable[[], str]) -> None:
        """`timestamp` returns 17 digits for the name of a new file."""
        self.directory = directory
        self._timestamp = timestamp
        self._writers = {one.name: _SeriesWriter(one) for one in series}
        if len(self._writers) < len(series):
            raise UsageError(f"two series have the same name: {', '.join(one.name for one in series)}")
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._lock = _acquire_lock(directory / f"{series[0].unique}.lock")
        self._recovered = False
        self._new_names = False

    def add_series(self, series: FileSeries) -> None:
        """Add a series. If it has files from earlier runs, call this before `recover`."""
        if series.name in self._writers:
            raise UsageError(f"two series have the same name: {series.name}")
        self._writers[series.name] = _SeriesWriter(series)

    def recover(self, committed: Mapping[str, int]) -> Recovery:
        """Truncate the files to the lengths that the store has committed. Call it before the first write, and again
        after the store was restored to an earlier state. Files of these series that the store does not know are
        removed; files that it knows but that do not exist are reported as missing. Indexes of files that are not
        finished are removed."""
        self._close_files()
        present = set(os.listdir(self.directory))
        self._check_lengths(committed, present)
        cut, removed = [], []
        for writer in self._writers.values():
            kept: list[str] = []
            changed: list[str] = []
            for serial, name in writer.series.select(present | committed.keys()):
                writer.serial = max(writer.serial, serial + 1)
                if name not in present:
                    changed.append(name)
                    continue
                if name in committed:
                    kept.append(name)
                    if (length := self._path(name).stat().st_size) > committed[name]:
                        _truncate_file(self._path(name), committed[name])
                        cut.append(OutputMove(name, length, committed[name]))
                        changed.append(name)
                else:
                    self._path(name).unlink()
                    removed.append(name)
                    changed.append(name)
            if kept and committed[kept[-1]] < writer.series.size:
                changed.append(kept[-1])
                writer.current = self._open(kept.pop(), committed[changed[-1]], os.O_RDWR)
            writer.finished = kept
            self._remove_indexes(writer.series, changed)
        os.fsync(self._directory)
        self._recovered = True
        return Recovery(cut, removed, sorted(committed.keys() - present))

    def append(self, series: str, records: Iterable[bytes]) -> list[RecordLocation]:
        """Append records. They are part of the output after `commit`."""
        if not self._recovered:
            raise UsageError("append() was called before recover(); bytes that a crash left behind would be kept")
        writer = self._writers[series]
        placed: list[RecordLocation] = []
        pending: list[bytes] = []
        file = writer.current
        if file is not None:
            check_undamaged(self._path(file.name), file.descriptor, file.end)
        for record in records:
            if file is None or file.end >= writer.series.size:
                _flush(file, pending)
                file = self._open_next_file(writer)
            if not writer.touched or writer.touched[-1] is not file:
                writer.touched.append(file)
            placed.append(RecordLocation(file.name, file.end, len(record)))
            file.end += len(record)
            pending.append(record)
        _flush(file, pending)
        return placed

    def find_end(self, series: str) -> RecordLocation | None:
        """Return where the next record of a series will be, in the current file; None if there is no such file."""
        file = self._writers[series].current
        return None if file is None else RecordLocation(file.name, file.end, 0)

    def take_finished(self, series: str) -> list[str]:
        """Return the committed files that will not change any more, each once after `recover`."""
        writer = self._writers[series]
        finished, writer.finished = writer.finished, []
        return finished

    def sync(self) -> None:
        """Write all appended bytes to disk."""
        for file in self._list_touched_files():
            if file.synced < file.end:
                os.fdatasync(file.descriptor)
                file.synced = file.end
        if self._new_names:
            os.fsync(self._directory)
            self._new_names = False

    def list_moves(self) -> list[OutputMove]:
        """Return what the settlement has to commit: each file that grew, with its old and new length."""
        return [OutputMove(file.name, file.committed, file.end) for file in self._list_touched_files()]

    def commit(self) -> None:
        """Keep the appended bytes, after the store has confirmed the settlement."""
        for writer in self._writers.values():
            for file in writer.touched:
                file.committed = file.end
                if file is not writer.current:
                    os.close(file.descriptor)
                    writer.finished.append(file.name)
            writer.touched.clear()

    def rollback(self) -> None:
        """Remove the appended bytes, after the settlement failed."""
        for writer in self._writers.values():
            while writer.touched:
                file = writer.touched[-1]
                if file.committed:
                    if os.fstat(file.descriptor).st_size > file.committed:  # truncating would extend a shorter file
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
        """Release the lock. Uncommitted bytes stay in the files until `recover` decides whether to keep them: their
        settlement may have succeeded although its reply was lost."""
        if self._lock >= 0:
            self._close_files()
            os.close(self._directory)
            os.close(self._lock)
            self._lock = -1

    def _close_files(self) -> None:
        """Close all files without changing them."""
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

    def _remove_indexes(self, series: FileSeries, names: Iterable[str]) -> None:
        if series.index_suffix is not None:
            for name in names:
                self._path(name + series.index_suffix).unlink(missing_ok=True)

    def _list_touched_files(self) -> list[_OpenFile]:
        return [file for writer in self._writers.values() for file in writer.touched]

    def _path(self, name: str) -> Path:
        return self.directory / name

    def _open_next_file(self, writer: _SeriesWriter) -> _OpenFile:
        """Open a new file. `commit` closes the previous one, or this method if the settlement has not written to it."""
        if writer.current is not None and writer.current not in writer.touched:
            os.close(writer.current.descriptor)
            writer.finished.append(writer.current.name)
            writer.current = None
        name = writer.series.format_file_name(self._timestamp(), writer.serial)
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
        """Raise OutputDamaged if a file is shorter than its committed length, before any file is changed."""
        for name, length in committed.items():
            if name in present and (found := self._path(name).stat().st_size) < length:
                raise OutputDamaged(
                    f"{self._path(name)} is {found} bytes long, but {length} bytes are committed: records are missing. "
                    "Restore the file from a copy, or move it away to continue without it."
                )


def check_undamaged(path: Path, descriptor: int, end: int) -> None:
    """Raise OutputDamaged if the file was deleted or truncated, before anything is written to it."""
    found = os.fstat(descriptor)
    gone = not found.st_nlink and not path.exists()  # some file systems always report 0 links
    if gone or found.st_size < end:
        how = "was deleted" if gone else f"is {found.st_size} bytes long instead of {end}"
        raise OutputDamaged(f"{path} {how}: another program changed it during the run")


def _acquire_lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(descriptor, 100).decode(errors="replace").strip() or "an unknown process"
        os.close(descriptor)
        raise OutputBusy(
            f"{path.parent} is locked by {owner}, which writes to it. Wait until it ends, or use another directory."
        ) from None
    text = f"process {os.getpid()} on {os.uname().nodename}\n".encode()
    os.ftruncate(descriptor, os.pwrite(descriptor, text, 0))  # in this order, so that it needs no room on a full disk
    return descriptor


def _flush(file: _OpenFile | None, pending: list[bytes]) -> None:
    if file is not None and pending:
        _write(file.descriptor, pending, file.end - sum(map(len, pending)))
        pending.clear()


def _write(descriptor: int, records: Sequence[bytes], offset: int) -> None:
    """Write all records at `offset`. The system may write fewer bytes per call than it is given."""
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
