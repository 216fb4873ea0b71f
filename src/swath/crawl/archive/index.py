"""Read the page lists of a crawl, and write the CDXJ index of its whole archive."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from swath.crawl.archive import cdxj
from swath.crawl.archive.page_list import describe_damage, read_lines
from swath.crawl.archive.warc_index import SUFFIX, write_warc_index
from swath.crawl.urls import normalise
from swath.crawl.workspace import list_outputs
from swath.files.replace_file import replace_file

FILE = "index.cdxj"
_WARC = re.compile(r"swath-\d{17}-\d+-(?P<unique>.+)\.warc\.gz")
RUNS_PREFIX = "cdxj-index-"  # of directories with sorted runs


def read_pages(directory: Path, committed: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield every settled page in the lists of this directory, in the order of settlement."""
    for path in list_outputs(directory):
        if path.name.startswith("pages-") and path.name in committed:
            try:
                yield from map(json.loads, read_lines(path, committed[path.name]))
            except ValueError as error:
                raise describe_damage(path, error) from error


def write_index(directory: Path, committed: Mapping[str, int]) -> None:
    """Write the sorted index of all archived pages: merge the indexes of the WARC files, and add the other pages."""
    for path in directory.glob(f"{RUNS_PREFIX}*"):  # a killed process left it
        shutil.rmtree(path, ignore_errors=True)
    for warc in _list_missing(directory, committed):
        pages = (
            page for page in read_pages(directory, committed) if page.get("file") == warc and cdxj.is_capture(page)
        )
        write_warc_index(directory, warc, pages, prefix=RUNS_PREFIX)
    indexes = {
        path.name: index
        for path in list_outputs(directory)
        if path.name in committed and (index := path.with_name(path.name + SUFFIX)).exists()
    }
    others = (page for page in read_pages(directory, committed) if page.get("file", FILE) not in indexes)
    rest = cdxj.sort_lines(
        (cdxj.make_entry(page) for page in others if cdxj.is_capture(page)),
        surt=normalise.surt,
        directory=directory,
        prefix=RUNS_PREFIX,
    )
    merged = cdxj.merge_sorted(list(indexes.values()), rest, directory=directory, prefix=RUNS_PREFIX)
    replace_file(directory / FILE, (f"{line}\n" for line in merged))


def _list_missing(directory: Path, committed: Mapping[str, int]) -> list[str]:
    """Return the finished WARC files without an index. The last file of each process may grow."""
    last: dict[str, str] = {}
    missing = []
    for path in list_outputs(directory):  # in the order of their serial numbers
        if path.name in committed and (named := _WARC.fullmatch(path.name)) is not None:
            if (finished := last.get(named["unique"])) is not None and not (directory / f"{finished}{SUFFIX}").exists():
                missing.append(finished)
            last[named["unique"]] = path.name
    return missing


def remove_index(directory: Path) -> None:
    """Remove the index of the whole archive, because pages are going to be added."""
    (directory / FILE).unlink(missing_ok=True)


def has_archive(directory: Path) -> bool:
    return any(path.name.endswith(".warc.gz") for path in list_outputs(directory))


def read_cdxj_lines(directory: Path, committed: Mapping[str, int]) -> Iterator[str]:
    entries = (cdxj.make_entry(page) for page in read_pages(directory, committed) if cdxj.is_capture(page))
    return cdxj.sort_lines(entries, surt=normalise.surt, directory=directory)
