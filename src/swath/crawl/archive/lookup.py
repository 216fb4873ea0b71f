"""Find the captures of a URL: by binary search in the index of the archive, or in the page lists."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from swath.crawl.archive import cdxj, index
from swath.crawl.archive.cdxj import IndexEntry
from swath.crawl.archive.last_lines import get_order
from swath.crawl.archive.page_list import describe_damage, read_lines
from swath.crawl.urls import normalise
from swath.crawl.workspace import list_outputs

TIMESTAMP = "%Y%m%d%H%M%S"


def find_captures(directory: Path, committed: Mapping[str, int], key: str) -> list[IndexEntry]:
    """Return the archived captures of a page, in the order of their times. `key` is the URL of a GET, or another key.

    The index of the archive exists only while it is complete, and has URLs only. Otherwise all page lists are read.
    """
    path = directory / index.FILE
    if path.exists() and normalise.normalise(key) == key:
        return sorted(_search_index(path, key), key=lambda entry: entry.time)
    return [cdxj.make_entry(page) for page in find_lines(directory, committed, key) if cdxj.is_capture(page)]


def find_lines(
    directory: Path, committed: Mapping[str, int], key: str, *, any_method: bool = False
) -> list[dict[str, Any]]:
    """Return the lines of the page lists for a page, in the order of their times.

    With `any_method`, a URL finds all pages that were fetched from it, also with other methods than GET.
    """
    text = json.dumps(key, ensure_ascii=False)
    wanted = f'"url":{text}'.encode(), f'"key":{text}'.encode()  # as `format_page_line` writes them
    found = []
    for path in list_outputs(directory):
        if path.name.startswith("pages-") and path.name in committed:
            for line in read_lines(path, committed[path.name]):
                if wanted[0] in line or wanted[1] in line:
                    try:
                        page = json.loads(line)
                    except ValueError as error:
                        raise describe_damage(path, error) from error
                    if page.get("key") == key or (page["url"] == key and (any_method or "method" not in page)):
                        found.append(page)
    return sorted(found, key=get_order)


def _search_index(path: Path, url: str) -> Iterator[IndexEntry]:
    key = f"{normalise.surt(url)} ".encode()
    with path.open("rb") as file:
        file.seek(_find_first(file, key))
        for line in file:
            if not line.startswith(key):
                return
            _, moment, text = line.decode().split(" ", 2)
            fields = json.loads(text)
            if fields["url"] == url:
                yield IndexEntry(
                    url=url,
                    time=datetime.strptime(moment, TIMESTAMP).replace(tzinfo=UTC).timestamp(),
                    status=int(fields["status"]),
                    mime=fields["mime"],
                    digest=fields["digest"],
                    file=fields["filename"],
                    offset=int(fields["offset"]),
                    length=int(fields["length"]),
                )


def _find_first(file: BinaryIO, key: bytes) -> int:
    """Return the offset of the first line that is not before the key."""
    low, high = 0, file.seek(0, 2)
    while low < high:
        middle = (low + high) // 2
        file.seek(middle)
        if middle:
            file.seek(middle - 1)
            file.readline()  # the rest of the line before
        start = file.tell()
        if start < high and file.readline() < key:
            low = file.tell()
        else:
            high = middle
    return low
