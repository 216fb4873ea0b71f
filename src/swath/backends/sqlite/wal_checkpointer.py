"""Copies the write-ahead log into the database, in a thread of its own, so that the writer need not.

SQLite does it within a commit, once the log is long: nobody writes meanwhile. What was copied before, beside the
writer, need not be copied then. How it is copied and what a crash leaves are SQLite's business in both cases; where
this fails, the writer copies.
"""

import sqlite3
import threading
from contextlib import closing, suppress
from queue import SimpleQueue

from swath.backends.sqlite.connection import connect
from swath.core.errors import StoreUnavailable


class WalCheckpointer:
    """For one thread, which tells it when to copy, and to end."""

    def __init__(self, path: str) -> None:
        self._bell: SimpleQueue[bool] = SimpleQueue()  # True to copy, False to end
        self._thread = threading.Thread(target=self._work, args=[path], name=f"swath copier of {path}", daemon=True)
        self._started = False
        self._copying = False

    def copy(self) -> None:
        """Copy what is committed by now, unless a copy is under way: a commit that is to begin the log anew needs a
        moment in which nobody copies."""
        if self._copying:
            return
        if not self._started:
            with suppress(RuntimeError):  # this process may have no more threads
                self._thread.start()
                self._started = True
        if self._started:
            self._copying = True
            self._bell.put(True)

    def close(self) -> None:
        """Return when nothing is copied any more."""
        if self._started:
            self._bell.put(False)
            self._thread.join()

    # In the thread.

    def _work(self, path: str) -> None:
        with suppress(sqlite3.Error, StoreUnavailable), closing(connect(path)) as connection:
            while self._bell.get():
                with suppress(sqlite3.Error):  # a disk that is full, say: the writer will tell
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                self._copying = False
