"""The sources that are scanned, made anew for each run."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

FILES_OF_A_FOLDER = 100
GROUP = 100_000  # rows of a Parquet row group
_COLUMNS = "id bigint PRIMARY KEY, email text NOT NULL, name text NOT NULL, n integer NOT NULL"


def _rows(count: int) -> Iterator[tuple[int, str, str, int]]:
    return ((number, f"user{number}@example.org", f"User number {number}", number % 97) for number in range(count))


def sqlite(directory: Path, count: int) -> str:
    path = directory / "rows.db"
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE users ({_COLUMNS})")
    connection.executemany("INSERT INTO users VALUES (?, ?, ?, ?)", _rows(count))
    connection.commit()
    connection.close()
    return f"sqlite:///{path}#users"


def postgres(dsn: str, count: int) -> str:
    with psycopg.connect(dsn) as connection:
        connection.execute(f"CREATE TABLE users ({_COLUMNS})".encode())
        with connection.cursor().copy("COPY users FROM STDIN") as copy:
            for row in _rows(count):
                copy.write_row(row)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE users")
    return f"{dsn}#users"


def lines(directory: Path, count: int) -> str:
    path = directory / "records.jsonl"
    with path.open("w") as file:
        for row in _rows(count):
            file.write(json.dumps(dict(zip(("id", "email", "name", "n"), row, strict=True))) + "\n")
    return str(path)


def parquet(directory: Path, count: int) -> str:
    path = directory / "data.parquet"
    columns = list(zip(*_rows(count), strict=True))
    table = pa.table(dict(zip(("id", "email", "name", "n"), columns, strict=True)))
    pq.write_table(table, path, row_group_size=GROUP)
    return str(path)


def files(directory: Path, count: int) -> str:
    root = directory / "tree"
    for number in range(-(-count // FILES_OF_A_FOLDER)):
        folder = root / f"{number // 100}" / f"{number}"
        folder.mkdir(parents=True)
        for name in range(min(FILES_OF_A_FOLDER, count - number * FILES_OF_A_FOLDER)):
            (folder / f"{name}.txt").write_bytes(b"some text\n" * 20)
    return str(root)
