"""Choose the source for --source and --against."""

import os
from collections.abc import Callable

from swath import UsageError
from swath.scan.settings import ScanSettings
from swath.scan.sources.filesystems import find_local_path
from swath.scan.sources.json_lines import JsonLinesSource
from swath.scan.sources.parquet import ParquetSource
from swath.scan.sources.source import Source
from swath.scan.sources.table import SCHEMES, TableSource
from swath.scan.sources.table_comparison import TableComparison
from swath.scan.sources.tree import TreeSource
from swath.scan.sources.tree_comparison import TreeComparison

# Files of records, by the end of their name
FILE_SOURCES: dict[str, Callable[[str], Source]] = {
    ".jsonl": JsonLinesSource,
    ".jsonl.gz": JsonLinesSource,
    ".jsonl.zst": JsonLinesSource,
    ".ndjson": JsonLinesSource,
    ".ndjson.gz": JsonLinesSource,
    ".ndjson.zst": JsonLinesSource,
    ".parquet": ParquetSource,
}


def open_source(settings: ScanSettings) -> Source:
    """Return the source of a scan: a table, a file of records, a tree, or a comparison."""
    name = settings.source
    if not name:
        raise UsageError("--source is empty. Name a table, a directory or a file of records")
    if settings.against is not None:
        return _open_comparison(settings, settings.against)
    if name.startswith(SCHEMES):
        return TableSource(name, key=settings.key)
    if settings.key is not None:
        raise UsageError(f"--key is for tables, and {name} is not a table")
    make_source = find_file_source(name)
    if make_source is not None:
        return make_source(name)
    path = find_local_path(name)
    if path is not None and os.path.isfile(path):
        raise UsageError(f"{name} is a file of an unknown format. Known formats: {', '.join(FILE_SOURCES)}")
    return TreeSource(name, excluded=settings.store_files)


def find_file_source(name: str) -> Callable[[str], Source] | None:
    """Return the source for a file of records; None for a directory or an unknown suffix."""
    path = find_local_path(name)
    if path is not None and os.path.isdir(path):
        return None
    return next((make_source for suffix, make_source in FILE_SOURCES.items() if name.endswith(suffix)), None)


def _open_comparison(settings: ScanSettings, against: str) -> Source:
    names = (settings.source, against)
    tables = [name.startswith(SCHEMES) for name in names]
    if all(tables):
        return TableComparison(
            settings.source, against, key=settings.key, columns=settings.columns, loose=settings.loose
        )
    if any(tables) or settings.key is not None or any(find_file_source(name) is not None for name in names):
        raise UsageError("--against compares two tables or two trees. Name two of the same kind")
    if settings.loose:
        raise UsageError("--loose is for tables: it says which values of different types are equal")
    return TreeComparison(settings.source, against, columns=settings.columns, excluded=settings.store_files)
