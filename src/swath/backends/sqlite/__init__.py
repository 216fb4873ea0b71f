"""A frontier in one SQLite file."""

from swath.backends.sqlite.migration import Version
from swath.backends.sqlite.store import SqliteStore, migrate, versions

__all__ = ["SqliteStore", "Version", "migrate", "versions"]
