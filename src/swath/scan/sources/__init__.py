"""Sources of records: tables, trees of files, JSON Lines, Parquet, and comparisons of two tables or trees.

A source subclasses `source.Source`; `registry` chooses one. Sources import records and findings, and nothing else of
the scan.
"""
