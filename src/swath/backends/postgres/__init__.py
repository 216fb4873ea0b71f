"""The PostgreSQL store: one schema per frontier, any number of machines."""

from swath.backends.postgres.migration import migrate
from swath.backends.postgres.store import PostgresStore

__all__ = ["PostgresStore", "migrate"]
