"""A frontier in one SQLite file: start with `store.py`; writes go through `writer.py`, one thread with group commit.

It imports the standard library, `swath.core` and `swath.backends.sql`, and only the registry imports it.
"""

from swath.backends.sqlite.store import SqliteStore, migrate

__all__ = ["SqliteStore", "migrate"]
