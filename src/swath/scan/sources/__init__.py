"""Where records come from: trees of files, JSON Lines, Parquet, tables."""
