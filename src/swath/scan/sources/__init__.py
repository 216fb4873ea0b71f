"""Sources of records: tables, trees of files, JSON Lines, Parquet, and comparisons of two tables or trees.

A source subclasses `source.Source`; `registry` chooses one. Of the scan, sources import
the values that they exchange with it (`finding`, `record`, `path_keys`) and `import_pyarrow`; only `registry` imports
the settings. Tables come from `swath.tables`.
"""
