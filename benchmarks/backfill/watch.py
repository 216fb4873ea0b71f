"""What others feel of a change while it runs: for how long a transaction that has written kept its locks."""

import threading
from types import TracebackType
from typing import Self

import psycopg

LOOK_SECONDS = 0.02

# A transaction has a number from its first write on, and its locks until its end. Which one is told by its start.
_WRITING = b"""
SELECT pid::text || ' ' || backend_xid::text, extract(epoch FROM clock_timestamp())::float8
FROM pg_stat_activity WHERE datname = current_database() AND backend_xid IS NOT NULL AND pid <> pg_backend_pid()
"""


class Watch:
    """Looks fifty times a second who has been writing since when."""

    def __init__(self, dsn: str) -> None:
        self.longest = 0.0
        self._since: dict[str, float] = {}
        self._dsn = dsn
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while not self._over.wait(LOOK_SECONDS):
                seen = dict(connection.execute(_WRITING).fetchall())
                self._since = {who: self._since.get(who, now) for who, now in seen.items()}
                for who, now in seen.items():
                    self.longest = max(self.longest, now - self._since[who])
