"""The format and the size of a SQLite store."""

import os

from swath.backends.sqlite.format import FORMAT
from swath.core.status import StoreInfo


def describe(path: str) -> StoreInfo:
    """Describe the file of a store that this version of swath can open."""
    files = (path, f"{path}-wal")
    return StoreInfo("sqlite", FORMAT, sum(os.path.getsize(file) for file in files if os.path.exists(file)))
