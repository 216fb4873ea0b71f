"""Tables in slices of their keys, in PostgreSQL and SQLite."""
