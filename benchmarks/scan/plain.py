"""`python -m benchmarks.scan.plain KIND SOURCE`: the loop that somebody would write instead. Prints what it did."""

import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
import pyarrow.parquet as pq

from benchmarks.scan import checks

FETCHED = 2_000  # rows of a server-side cursor at a time


def sqlite(source: str) -> int:
    path, _, table = source.removeprefix("sqlite:///").partition("#")
    count = 0
    cursor = sqlite3.connect(path).execute(f"SELECT * FROM {table}")
    names = [column[0] for column in cursor.description]
    for row in cursor:
        checks.plain_row(dict(zip(names, row, strict=True)))
        count += 1
    return count


def postgres(source: str) -> int:
    dsn, _, table = source.partition("#")
    count = 0
    with psycopg.connect(dsn) as connection, connection.cursor("scan") as cursor:
        cursor.itersize = FETCHED
        cursor.execute(f"SELECT * FROM {table}".encode())
        names = [column.name for column in cursor.description or ()]
        for row in cursor:
            checks.plain_row(dict(zip(names, row, strict=True)))
            count += 1
    return count


def lines(source: str) -> int:
    count = 0
    with open(source, "rb") as file:
        for line in file:
            checks.plain_row(json.loads(line))
            count += 1
    return count


def parquet(source: str) -> int:
    count = 0
    for batch in pq.ParquetFile(source).iter_batches(batch_size=5_000):
        for row in batch.to_pylist():
            checks.plain_row(row)
            count += 1
    return count


class File:
    def __init__(self, path: str) -> None:
        self.path = path
        self.stat = os.stat(path)

    def read(self) -> bytes:
        return Path(self.path).read_bytes()


def files(source: str) -> int:
    count = 0
    for folder, _, names in os.walk(source):
        for name in names:
            checks.file(File(os.path.join(folder, name)))
            count += 1
    return count


LOOPS: Mapping[str, Callable[[str], int]] = {
    "sqlite": sqlite, "postgres": postgres, "lines": lines, "parquet": parquet, "files": files,
}  # fmt: skip


def main() -> None:
    kind, source = sys.argv[1:]
    began = time.perf_counter()
    records = LOOPS[kind](source)
    print(json.dumps({"records": records, "seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
