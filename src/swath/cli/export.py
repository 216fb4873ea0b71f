"""`swath export`: the page list of a crawl as JSON Lines, CSV, Parquet or a CDXJ index."""

import asyncio
import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

import swath
from swath import MissingExtra, UsageError
from swath.cli.command import check_optional_store, run_command
from swath.crawl.settings import CrawlSettings

FORMATS = ("jsonl", "csv", "parquet", "cdxj")
FIELDS = {
    "url": str, "status": int, "time": float, "kind": str, "depth": int, "referrer": str, "redirect": str, "type": str,
    "size": int, "digest": str, "duplicate_of": str, "title": str, "canonical": str, "noindex": bool, "truncated": str,
    "decode_error": str, "failed": str, "attempts": int, "fallback": str, "error": str, "excluded": str, "rule": str,
    "file": str, "offset": int, "length": int,
}  # fmt: skip
ROW_GROUP = 50_000  # rows


def export(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", show_default="standard output", help="File to write")
    ] = None,
    out: Annotated[str, typer.Option("--out", "-o", metavar="DIR", help="Directory of the crawl")] = "crawl",
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            envvar="SWATH_STORE",
            show_envvar=True,
            metavar="URL",
            show_default="frontier.db in DIR",
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
) -> None:
    """Export the pages of a crawl, one record per page.

    The export contains settled pages only, and works while the crawl runs.
    """
    settings = CrawlSettings(out=out, store=store)
    run_command(settings.store_url, _export(settings, file, format))


def _choose_format(asked: str | None, file: str | None) -> str:
    found = asked or (Path(file).suffix.removeprefix(".") if file else "jsonl")
    if found not in FORMATS:
        raise UsageError(f"--format {found}: must be one of {', '.join(FORMATS)}")
    if found == "parquet" and file is None:
        raise UsageError("Parquet cannot be written to standard output: give a file name")
    return found


async def _export(settings: CrawlSettings, file: str | None, asked: str | None) -> None:
    form = _choose_format(asked, file)
    check_optional_store(settings.store)
    try:
        from swath.crawl.archive import index  # noqa: F401
    except ImportError as error:
        raise MissingExtra("`swath export` needs more packages: pip install 'swath[crawl]'") from error
    async with swath.open(settings.store_url, create=False) as frontier:
        committed = await frontier.outputs()
    try:
        await asyncio.to_thread(_write, settings.directory, committed, file, form)
    except OSError as error:
        if file is None and error.filename is None:  # standard output
            raise
        raise UsageError(f"{error.filename or file}: {error.strerror}") from error


def _write(directory: Path, committed: Mapping[str, int], file: str | None, form: str) -> None:
    from swath.crawl.archive import index

    if form == "parquet":
        assert file is not None
        _write_parquet(index.read_pages(directory, committed), file)
        return
    if file is None and isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # like a file, in any locale
    with nullcontext(sys.stdout) if file is None else open(file, "w", encoding="utf-8", newline="") as stream:
        if form == "cdxj":
            stream.writelines(f"{line}\n" for line in index.read_cdxj_lines(directory, committed))
        else:
            _WRITERS[form](index.read_pages(directory, committed), stream)


def _write_jsonl(pages: Iterator[dict[str, Any]], stream: TextIO) -> None:
    for page in pages:
        stream.write(json.dumps(page, ensure_ascii=False) + "\n")


def _write_csv(pages: Iterator[dict[str, Any]], stream: TextIO) -> None:
    writer = csv.DictWriter(stream, FIELDS, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(pages)


_WRITERS: dict[str, Callable[[Iterator[dict[str, Any]], TextIO], None]] = {
    "jsonl": _write_jsonl,
    "csv": _write_csv,
}


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
