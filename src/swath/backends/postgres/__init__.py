"""The PostgreSQL store: one schema per frontier, any number of machines.

Imports only `swath.core`, `swath.backends.sql` and psycopg.
"""

from swath.backends.postgres.migration import migrate
from swath.backends.postgres.store import PostgresStore

__all__ = ["PostgresStore", "migrate"]
