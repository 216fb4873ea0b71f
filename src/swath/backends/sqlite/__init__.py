"""A frontier in one SQLite file."""

from swath.backends.sqlite.store import SqliteStore, migrate

__all__ = ["SqliteStore", "migrate"]
