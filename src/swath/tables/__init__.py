"""Tables of PostgreSQL and SQLite, read and written in slices of a unique key.

The backfill and the scan share this package. It imports `swath`, the database drivers and the standard library.
"""
