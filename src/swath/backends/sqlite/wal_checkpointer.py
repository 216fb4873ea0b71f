"""WalCheckpointer: copies the pages of the write-ahead log into the database, in its own thread.

Without it, SQLite checkpoints inside a commit once the log is long, and no process can write until that is done. SQLite
does the copying and handles crashes in both cases. If this thread fails, the writer's commits checkpoint the log.
"""

import sqlite3
import threading
from contextlib import closing, suppress
from queue import SimpleQueue

from swath.backends.sqlite.connection import connect
from swath.core.errors import StoreUnavailable


class WalCheckpointer:
    """Runs checkpoints when its owner asks for them. For use by one thread."""

    def __init__(self, path: str) -> None:
        self._bell: SimpleQueue[bool] = SimpleQueue()  # True: checkpoint, False: end
        self._thread = threading.Thread(
            target=self._work, args=[path], name=f"swath checkpointer of {path}", daemon=True
        )
        self._started = False
        self._running = False

    def checkpoint(self) -> None:
        """Start a checkpoint unless one is running.

        Checkpoints need a pause between them, because a commit can restart the log only while no checkpoint runs.
        """
        if self._running:
            return
        if not self._started:
            with suppress(RuntimeError):  # the process has reached its limit of threads
                self._thread.start()
                self._started = True
        if self._started:
            self._running = True
            self._bell.put(True)

    def close(self) -> None:
        """Wait for a running checkpoint and end the thread."""
        if self._started:
            self._bell.put(False)
            self._thread.join()

    # Runs in the thread.

    def _work(self, path: str) -> None:
        with suppress(sqlite3.Error, StoreUnavailable), closing(connect(path)) as connection:
            while self._bell.get():
                with suppress(sqlite3.Error):  # such as a full disk, which the writer reports
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                self._running = False
