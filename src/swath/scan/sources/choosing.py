"""Which kind of source a name stands for."""

import os

from swath.core.errors import UsageError
from swath.scan.settings import ScanSettings
from swath.scan.sources.lines import SUFFIXES, LinesSource
from swath.scan.sources.parquet import ParquetSource
from swath.scan.sources.places import local_path
from swath.scan.sources.source import Source
from swath.scan.sources.tree import TreeSource


def source_of(settings: ScanSettings) -> Source:
    """The source that a scan is told of."""
    return _by_name(settings.source)


def _by_name(name: str) -> Source:
    """A source by its name: a tree, unless the name ends like that of a file of records."""
    if not name:
        raise UsageError("--source is empty: name a directory, a file of records or a table")
    path = local_path(name)
    if path is None or not os.path.isdir(path):
        if name.endswith(SUFFIXES):
            return LinesSource(name)
        if name.endswith(".parquet"):
            return ParquetSource(name)
    return TreeSource(name)
