"""Findings as Parquet, made of the lines that were committed."""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from swath import MissingExtra
from swath.scan.open_findings import lines_of

ROWS = 50_000  # of a row group
TEXTS = ("key", "code", "message", "state", "time", "source", "scan")


def write(path: Path, lines: Path, length: int) -> None:
    """Write a Parquet file of the findings in `lines`, up to a length. `data` is JSON."""
    arrow = need_arrow()
    schema = arrow.schema(
        [
            ("key", arrow.string()),
            ("code", arrow.string()),
            ("message", arrow.string()),
            ("data", arrow.string()),
            ("state", arrow.string()),
            ("round", arrow.int32()),
            ("time", arrow.string()),
            ("source", arrow.string()),
            ("scan", arrow.string()),
        ]
    )
    made = path.with_name(f"{path.name}.new")
    # Of a name, it would take one with a colon for a URL.
    with made.open("wb") as stream, arrow.parquet.ParquetWriter(stream, schema) as writer:
        rows = _rows(lines_of(lines, length))
        while chunk := list(islice(rows, ROWS)):
            writer.write_table(arrow.Table.from_pylist(chunk, schema=schema))
    made.replace(path)


def _rows(findings: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for finding in findings:
        texts = {name: finding[name].encode(errors="backslashreplace").decode() for name in TEXTS}
        data = None if finding["data"] is None else json.dumps(finding["data"])
        yield {**texts, "round": finding["round"], "data": data}


def need_arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("Parquet needs pyarrow: pip install 'swath[parquet]'") from error
    return pyarrow
