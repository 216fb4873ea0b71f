"""Canonical forms: one text per value, the same for equal values in PostgreSQL and in SQLite.

A canonical text is `class:text`, such as `number:1.5` or `boolean:true`; SQL NULL stays NULL. `postgres_sql` and
`sqlite_sql` have the SQL expressions, `values` what only Python can do, and `pairing` chooses them for two columns.
Imports only the public API and `swath.tables`.
"""
