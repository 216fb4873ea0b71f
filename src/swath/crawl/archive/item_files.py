"""Read the extracted items of a crawl: the committed part of the files of each kind."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from swath.crawl.archive.output import ITEMS_PREFIX
from swath.crawl.archive.page_list import read_lines
from swath.crawl.workspace import list_outputs

_KIND = re.compile(rf"{ITEMS_PREFIX}(?P<kind>\w+)-\d{{17}}-", re.ASCII)


def list_kinds(directory: Path, committed: Mapping[str, int]) -> list[str]:
    """Return the kinds of items that a directory has."""
    return sorted({kind for path in list_outputs(directory) if (kind := _find_kind(path)) and path.name in committed})


def read_item_lines(directory: Path, committed: Mapping[str, int], kind: str) -> Iterator[bytes]:
    """Yield the line of every settled item of a kind, in the order of settlement of each process."""
    for path in list_outputs(directory):
        if _find_kind(path) == kind and path.name in committed:
            yield from read_lines(path, committed[path.name])


def _find_kind(path: Path) -> str | None:
    found = _KIND.match(path.name)
    return None if found is None else found["kind"]
