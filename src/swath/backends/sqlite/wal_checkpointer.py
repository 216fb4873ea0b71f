"""WalCheckpointer: copies the pages of the write-ahead log into the database, in its own thread.

Without it, SQLite checkpoints inside a commit once the log is long, and no process can write until that is done. SQLite
does the copying and handles crashes in both cases. If this thread fails, commits checkpoint the log.
"""

import sqlite3
import threading
from contextlib import closing, suppress
from queue import SimpleQueue

from swath.backends.sqlite.connection import connect
from swath.core.errors import SwathError


class WalCheckpointer:
    """Runs a checkpoint when its owner asks for one. For use by one thread at a time."""

    def __init__(self, path: str) -> None:
        self._bell: SimpleQueue[bool] = SimpleQueue()  # True: checkpoint, False: end
        self._thread = threading.Thread(
            target=self._work, args=[path], name=f"swath checkpointer of {path}", daemon=True
        )
        self._started = False
        self._idle = threading.Event()
        self._idle.set()

    @property
    def is_running(self) -> bool:
        return not self._idle.is_set()

    def checkpoint(self) -> None:
        """Start a checkpoint unless one is running."""
        if self.is_running:
            return
        if not self._started:
            with suppress(RuntimeError):  # the process has reached its limit of threads
                self._thread.start()
                self._started = True
        if self._started:
            self._idle.clear()
            self._bell.put(True)

    def wait(self) -> None:
        """Wait for a running checkpoint."""
        self._idle.wait()

    def close(self) -> None:
        """Wait for a running checkpoint and end the thread."""
        if self._started:
            self._bell.put(False)
            self._thread.join()

    # Runs in the thread.

    def _work(self, path: str) -> None:
        connection: sqlite3.Connection | None = None
        while self._bell.get():
            try:
                connection = connection or connect(path)
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            except (sqlite3.Error, SwathError):
                pass  # such as a full disk, which the writer reports
            finally:
                self._idle.set()
        if connection is not None:
            with closing(connection):
                pass
