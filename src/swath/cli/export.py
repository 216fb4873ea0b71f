"""`swath export`: the page list of a crawl as JSON Lines, CSV, Parquet or a CDXJ index."""

import asyncio
import csv
import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TextIO

import typer

import swath
from swath import MissingExtra, UsageError
from swath.cli.command import check_optional_store, run_command
from swath.cli.formatting import dump_json
from swath.cli.terminal import get_output_stream, print_line
from swath.crawl.settings_file import locate_crawl

FORMATS = ("jsonl", "csv", "parquet", "cdxj")
FIELDS = {
    "url": str, "method": str, "key": str, "status": int, "time": float, "kind": str, "depth": int, "referrer": str,
    "redirect": str, "type": str,
    "size": int, "digest": str, "duplicate_of": str, "title": str, "canonical": str, "noindex": bool, "truncated": str,
    "decode_error": str, "handler": str, "handler_error": str, "repaired": float, "failed": str, "attempts": int,
    "fallback": str, "error": str, "excluded": str, "rule": str, "file": str, "offset": int, "length": int,
}  # fmt: skip
ROW_GROUP = 50_000  # rows
# Spreadsheets take a text that begins with one of these for a formula (https://owasp.org/www-community/attacks/CSV_Injection).
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class Selection(NamedTuple):
    """Which lines of the page list are exported."""

    all: bool = False  # otherwise the last line of each URL
    failed: bool = False
    excluded: bool = False

    def select(self, directory: Path, committed: Mapping[str, int]) -> Iterator[dict[str, Any]]:
        from swath.crawl.archive import index
        from swath.crawl.archive.last_lines import LastLines

        pages = index.read_pages(directory, committed)
        if not self.all:
            last = LastLines.find(index.read_pages(directory, committed), directory=directory)
            pages = last.select(pages)
        wanted = [name for name in ("failed", "excluded") if getattr(self, name)]
        return (page for page in pages if not wanted or any(name in page for name in wanted))


def export(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", show_default="standard output", help="File to write")
    ] = None,
    out: Annotated[
        list[str] | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            show_default="crawl",
            help="Directory of the crawl; with --items, repeat it for those of several machines",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            envvar="SWATH_STORE",
            show_envvar=True,
            metavar="STORE",
            show_default="that of the crawl in DIR",
            help="Frontier of the crawl",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="|".join(FORMATS),
            show_default="from the name of FILE",
            help="Format of the output",
        ),
    ] = None,
    all_lines: Annotated[
        bool, typer.Option("--all", help="Every line of the page list, not only the last one of each URL")
    ] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only pages that could not be fetched")] = False,
    excluded: Annotated[bool, typer.Option("--excluded", help="Only pages that were not fetched, by a rule")] = False,
    items: Annotated[
        bool, typer.Option("--items", help="The items of handlers instead of the pages; each kind has a file")
    ] = False,
    latest: Annotated[
        bool, typer.Option("--latest", help="With --items: only items of the last visit of each page")
    ] = False,
    raw_csv: Annotated[
        bool, typer.Option("--raw-csv", help="Do not protect spreadsheets from texts that begin like a formula")
    ] = False,
) -> None:
    """Export the pages of a crawl, one record per page.

    The export contains settled pages only, and works while the crawl runs. If a page was settled several times, for
    example because it failed and was fetched later, the record is that of the last time.

    Examples:
        swath export pages.csv
        swath export pages.parquet --out crawl
        swath export --items books.parquet --latest --out here --out there
    """
    selection = Selection(all_lines, failed, excluded)
    if items:
        run_command(
            store, _export_items(out or ["crawl"], store, file, format, selection, raw_csv=raw_csv, latest=latest)
        )
    else:
        run_command(store, _export(out or ["crawl"], store, file, format, selection, raw_csv=raw_csv, latest=latest))


def _choose_format(asked: str | None, file: str | None, selection: Selection, *, raw_csv: bool) -> str:
    found = asked or (Path(file).suffix.removeprefix(".") if file else "jsonl")
    if found not in FORMATS:
        raise UsageError(f"--format {found}: must be one of {', '.join(FORMATS)}")
    if found == "parquet" and file is None:
        raise UsageError("Parquet cannot be written to standard output: give a file name")
    if found == "cdxj" and (selection.failed or selection.excluded):
        raise UsageError("a CDXJ index has archived pages only: choose another format for --failed and --excluded")
    if raw_csv and found != "csv":
        raise UsageError(f"--raw-csv is for CSV, and the format is {found}")
    return found


async def _export_items(
    outs: list[str],
    store: str | None,
    file: str | None,
    asked: str | None,
    selection: Selection,
    *,
    raw_csv: bool,
    latest: bool = False,
) -> None:
    if file is None or asked is not None or raw_csv or any(selection):
        raise UsageError("--items writes a file whose name ends in .jsonl, .csv or .parquet, without other options")
    try:
        from swath.cli.item_export import export_items, prepare_item_file, read_export
        from swath.crawl.settings import check_item_file
    except ImportError as error:
        raise MissingExtra("`swath export` needs more packages: pip install 'swath[crawl]'") from error
    check_item_file(file)
    prepare_item_file(Path(file))
    directories = []
    columns: dict[str, Mapping[str, str]] = {}
    for out in dict.fromkeys(outs):
        settings = locate_crawl(out, check_optional_store(store))
        async with swath.open(settings.store_url, create=False) as frontier:
            committed, found = await read_export(settings, frontier)
            directories.append((settings.directory, committed))
            columns |= found
    for one in await asyncio.to_thread(export_items, directories, Path(file), columns=columns, latest=latest):
        print_line(f"{one.path}\t{one.items}", keep="\t")


async def _export(
    outs: list[str],
    store: str | None,
    file: str | None,
    asked: str | None,
    selection: Selection,
    *,
    raw_csv: bool,
    latest: bool = False,
) -> None:
    if latest:
        raise UsageError("--latest is for --items: of a page, only the last record is exported anyway")
    form = _choose_format(asked, file, selection, raw_csv=raw_csv)
    if len(outs) > 1:
        raise UsageError("pages are exported from one directory: give one --out, or --items")
    settings = locate_crawl(outs[0], check_optional_store(store))
    try:
        from swath.crawl.archive import index  # noqa: F401
    except ImportError as error:
        raise MissingExtra("`swath export` needs more packages: pip install 'swath[crawl]'") from error
    async with swath.open(settings.store_url, create=False) as frontier:
        committed = await frontier.outputs()
    try:
        await asyncio.to_thread(_write, settings.directory, committed, file, form, selection, raw_csv)
    except OSError as error:
        if file is None and error.filename is None:  # standard output
            raise
        raise UsageError(f"{error.filename or file}: {error.strerror}") from error


def _write(
    directory: Path, committed: Mapping[str, int], file: str | None, form: str, selection: Selection, raw_csv: bool
) -> None:
    from swath.crawl.archive import index

    if form == "parquet":
        assert file is not None
        _write_parquet(selection.select(directory, committed), file)
        return
    if file is None and isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # like a file, in any locale
    with nullcontext(get_output_stream()) if file is None else open(file, "w", encoding="utf-8", newline="") as stream:
        match form:
            case "cdxj":
                stream.writelines(f"{line}\n" for line in index.read_cdxj_lines(directory, committed))
            case "csv":
                _write_csv(selection.select(directory, committed), stream, raw=raw_csv)
            case _:
                _write_jsonl(selection.select(directory, committed), stream)


def _write_jsonl(pages: Iterator[dict[str, Any]], stream: TextIO) -> None:
    for page in pages:
        stream.write(f"{dump_json(page)}\n")


def _write_csv(pages: Iterator[dict[str, Any]], stream: TextIO, *, raw: bool) -> None:
    writer = csv.writer(stream)
    writer.writerow(FIELDS)
    for page in pages:
        cells = [page.get(name) for name in FIELDS]
        writer.writerow(cells if raw else map(escape_formula, cells))


def escape_formula(cell: Any) -> Any:
    """Prefix a text with an apostrophe if it begins like a formula. Numbers stay as they are."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell


def _write_parquet(pages: Iterator[dict[str, Any]], file: str) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra("Parquet needs pyarrow: pip install 'swath[parquet]'") from error
    kinds = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in FIELDS.items()])
    # Pass a stream: pyarrow takes a file name with a colon for a URL.
    with open(file, "wb") as stream, parquet.ParquetWriter(stream, schema, compression="zstd") as writer:
        rows: list[dict[str, Any]] = []
        for page in pages:
            rows.append({name: page.get(name) for name in FIELDS})
            if len(rows) == ROW_GROUP:
                writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
                rows = []
        writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
