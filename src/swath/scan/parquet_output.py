"""Write the committed findings as a Parquet file."""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from swath import MissingExtra
from swath.scan.open_findings import read_findings

ROW_GROUP = 50_000  # rows
TEXTS = ("key", "code", "message", "state", "time", "source", "scan")


def write_parquet(path: Path, findings: Path, length: int) -> None:
    """Write the first `length` bytes of a file of findings as Parquet. The column `data` is JSON."""
    arrow = import_pyarrow()
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
    temporary = path.with_name(f"{path.name}.new")
    # Pass a stream: pyarrow would take a file name with a colon for a URL.
    with temporary.open("wb") as stream, arrow.parquet.ParquetWriter(stream, schema) as writer:
        rows = _make_rows(read_findings(findings, length))
        while chunk := list(islice(rows, ROW_GROUP)):
            writer.write_table(arrow.Table.from_pylist(chunk, schema=schema))
    temporary.replace(path)


def _make_rows(findings: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for finding in findings:
        texts = {name: finding[name].encode(errors="backslashreplace").decode() for name in TEXTS}
        data = None if finding["data"] is None else json.dumps(finding["data"])
        yield {**texts, "round": finding["round"], "data": data}


def import_pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("Parquet needs pyarrow: pip install 'swath[parquet]'") from error
    return pyarrow
