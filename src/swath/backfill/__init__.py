"""`swath backfill`: change every row of a large table, in small transactions, while the table is in use.

Imports the public API of `swath`, `swath.tables` and the drivers of the databases; only the command line imports it.
"""
