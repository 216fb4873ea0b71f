"""Which kind of source a name stands for."""

import os

from swath import UsageError
from swath.scan.settings import ScanSettings
from swath.scan.sources.compared_rows import ComparedRows
from swath.scan.sources.compared_trees import ComparedTrees
from swath.scan.sources.filesystems import local_path
from swath.scan.sources.lines import SUFFIXES, LinesSource
from swath.scan.sources.parquet import ParquetSource
from swath.scan.sources.source import Source
from swath.scan.sources.table import SCHEMES, TableSource
from swath.scan.sources.tree import TreeSource


def source_of(settings: ScanSettings) -> Source:
    """The source that a scan is told of."""
    name = settings.source
    if not name:
        raise UsageError("--source is empty: name a directory, a file of records or a table")
    if settings.against is not None:
        return _compared(settings, settings.against)
    if name.startswith(SCHEMES):
        return TableSource(name, key=settings.key)
    if settings.key is not None:
        raise UsageError(f"--key names the key of a table, which {name} is not")
    return _by_name(name, settings)


def _compared(settings: ScanSettings, against: str) -> Source:
    tables = [name.startswith(SCHEMES) for name in (settings.source, against)]
    if all(tables):
        return ComparedRows(settings.source, against, key=settings.key, columns=settings.columns)
    files = [name for name in (settings.source, against) if name.endswith((*SUFFIXES, ".parquet"))]
    if any(tables) or settings.key is not None or any(map(_is_no_directory, files)):
        raise UsageError("--against compares two tables or two trees: name two of a kind")
    return ComparedTrees(settings.source, against, columns=settings.columns, spared=settings.store_files)


def _is_no_directory(name: str) -> bool:
    path = local_path(name)
    return path is None or not os.path.isdir(path)


def _by_name(name: str, settings: ScanSettings) -> Source:
    """A tree, unless the name ends like that of a file of records."""
    if _is_no_directory(name):
        if name.endswith(SUFFIXES):
            return LinesSource(name)
        if name.endswith(".parquet"):
            return ParquetSource(name)
    return TreeSource(name, spared=settings.store_files)
