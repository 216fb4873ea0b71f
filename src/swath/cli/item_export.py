"""Write the items of a crawl to a file: JSON Lines, CSV or Parquet."""

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from swath import Frontier, MissingExtra, UsageError
from swath.cli.export import ROW_GROUP, escape_formula
from swath.crawl.archive import index
from swath.crawl.archive.item_files import list_kinds, read_item_lines
from swath.crawl.archive.latest_items import select_latest
from swath.crawl.handlers.columns import JSON, Columns, read_columns
from swath.crawl.handlers.items import DICT_KIND, META
from swath.crawl.settings import CrawlSettings
from swath.files.errors import make_write_error
from swath.files.replace_file import NEW, sync_directory

Read = Callable[[], Iterator[bytes]]  # each call reads the lines of all items of a kind again
ReadItems = Callable[[], Iterator[dict[str, Any]]]
MAX_INT = 2**63 - 1
NO_COLUMNS: Mapping[str, Columns] = {}


class ExportedItems(NamedTuple):
    """A file with all items of a kind."""

    kind: str
    path: Path
    items: int


def export_items(
    directories: Sequence[tuple[Path, Mapping[str, int]]],
    file: Path,
    *,
    columns: Mapping[str, Columns] = NO_COLUMNS,
    latest: bool = False,
) -> Sequence[ExportedItems]:
    """Write the settled items of a crawl to a file, see `write_items`.

    `directories` has the directory of each machine with the committed lengths of its files. `columns` are
    those of the classes, by kind. With `latest`, the items of earlier visits of a page are left out.
    """
    kinds = sorted({kind for directory, committed in directories for kind in list_kinds(directory, committed)})

    def read(kind: str) -> Iterator[bytes]:
        for directory, committed in directories:
            yield from read_item_lines(directory, committed, kind)

    sources: Mapping[str, Read] = {kind: partial(read, kind) for kind in kinds}
    if latest:
        pages = (page for directory, committed in directories for page in index.read_pages(directory, committed))
        try:
            sources = select_latest(pages, sources, directory=file.parent)
        except OSError as error:
            raise UsageError(f"{error.filename or file}: {error.strerror}") from error
    return write_items(sources, file, columns=columns)


async def read_export(settings: CrawlSettings, frontier: Frontier) -> tuple[Mapping[str, int], Mapping[str, Columns]]:
    """Return the committed lengths of a crawl, and the columns of its items."""
    committed = await frontier.outputs()
    return committed, await read_columns(frontier, list_kinds(settings.directory, committed))


def write_items(
    sources: Mapping[str, Read], file: Path, *, columns: Mapping[str, Columns] = NO_COLUMNS
) -> Sequence[ExportedItems]:
    """Write the items of each kind. If there are several kinds, each has a file with its name.

    In CSV and Parquet, a kind has the columns of its class, and then those that only its items have.

    Readers see the file of before or the new one, also if the process is killed.
    """
    exported = []
    for kind, read in (sources or {DICT_KIND: partial(iter, ())}).items():
        path = file if len(sources) <= 1 else file.with_name(f"{file.stem}-{kind}{file.suffix}")
        try:
            exported.append(ExportedItems(kind, path, _write(path, read, columns.get(kind, {}))))
        except OSError as error:
            raise make_write_error(f"the file of items {path}", error) from error
    if len(sources) > 1:
        file.unlink(missing_ok=True)  # an earlier run had one kind only
    return exported


def prepare_item_file(file: Path) -> None:
    """Create the directory of a file of items. Raise UsageError if the file cannot be written: it takes long to collect
    the items."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UsageError(f"--items {file}: {file.parent} is not a directory") from error
    except OSError as error:
        raise make_write_error(f"--items {file}", error) from error
    if file.is_dir():
        raise UsageError(f"--items {file} is a directory: name a file")
    if not os.access(file.parent, os.W_OK | os.X_OK):
        raise UsageError(f"--items {file}: no file can be created in {file.parent}/: permission denied")


def _write(path: Path, read: Read, declared: Columns) -> int:
    made = path.with_name(path.name + NEW)
    try:
        match path.suffix:
            case ".csv":
                count = _write_csv(made, lambda: map(json.loads, read()), declared)
            case ".parquet":
                count = _write_parquet(made, lambda: map(json.loads, read()), declared)
            case _:
                count = _write_lines(made, read())
        _sync(made)
    except BaseException:
        made.unlink(missing_ok=True)
        raise
    made.replace(path)
    sync_directory(path.parent)
    return count


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _write_lines(path: Path, lines: Iterable[bytes]) -> int:
    count = 0
    with path.open("wb") as file:
        for line in lines:
            file.write(line)
            count += 1
    return count


def _write_csv(path: Path, read: ReadItems, declared: Columns) -> int:
    names = list(_find_columns(read(), declared))
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for item in read():
            writer.writerow([escape_formula(_format_cell(item.get(name))) for name in names])
            count += 1
    return count


def _format_cell(value: Any) -> Any:
    """Return what a cell can hold: lists and mappings as JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _find_columns(items: Iterable[Mapping[str, Any]], declared: Columns) -> dict[str, set[type]]:
    """Return the fields of all items with the types of their values.

    Those of the class come first, in its order. Those that swath adds to each item are last.
    """
    columns: dict[str, set[type]] = {name: set() for name in declared}
    for item in items:
        for name, value in item.items():
            known = columns.setdefault(name, set())
            if value is not None:
                is_large = type(value) is int and abs(value) > MAX_INT
                known.add(dict if is_large else type(value))
    for name, kind in declared.items():
        columns[name] = _merge_types(kind, columns[name])
    return {name: columns.get(name, {str}) for name in [*(one for one in columns if one not in META), *META]}


def _merge_types(declared: str, found: set[type]) -> set[type]:
    """Return the type that a class declares, unless it has none or some value does not fit it."""
    kind = {"str": str, "int": int, "float": float, "bool": bool, JSON: dict}.get(declared)
    fits = kind is not None and (found <= {kind} or (kind is float and found <= {int, float}) or kind is dict)
    return {kind} if kind is not None and fits else found


def _write_parquet(path: Path, read: ReadItems, declared: Columns) -> int:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra("Parquet needs pyarrow: pip install 'swath[parquet]'") from error
    kinds = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}
    types = {name: _choose_type(found) for name, found in _find_columns(read(), declared).items()}
    # A column whose values have several types, or are lists and mappings, has them as JSON.
    schema = pyarrow.schema([(name, kinds[kind or str]) for name, kind in types.items()])
    count = 0
    with path.open("wb") as stream, parquet.ParquetWriter(stream, schema, compression="zstd") as writer:
        rows: list[dict[str, Any]] = []
        for item in read():
            rows.append({name: _convert(item.get(name), kind) for name, kind in types.items()})
            count += 1
            if len(rows) == ROW_GROUP:
                writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
                rows = []
        writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
    return count


def _choose_type(found: set[type]) -> type | None:
    """Return the type of a column; None if its values are written as JSON."""
    if not found:
        return str
    if found == {int, float}:
        return float
    (first, *others) = found
    return first if not others and first in (str, int, float, bool) else None


def _convert(value: Any, kind: type | None) -> Any:
    if value is None:
        return None
    if kind is None:
        return json.dumps(value, ensure_ascii=False)
    return float(value) if kind is float else value
