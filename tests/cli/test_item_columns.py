"""Exported items: the columns of tables, their types, and groups of rows."""

import csv
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from swath import UsageError
from swath.cli import item_export
from swath.cli.item_export import MAX_INT, write_items
from swath.crawl.handlers.items import META

ITEMS: list[dict[str, Any]] = [
    {"_url": "u", "text": "ä", "n": 1, "mixed": 1, "number": 1, "large": MAX_INT, "part": {"a": [1]}, "no": None},
    {"_url": "v", "text": "=1+1", "n": -2, "mixed": "x", "number": 0.5, "large": MAX_INT + 1, "yes": True},
    {"_url": "w", "text": None, "n": 3, "mixed": True, "number": None, "large": -MAX_INT - 1, "part": [2]},
]  # fmt: skip
OWN = ["text", "n", "mixed", "number", "large", "part", "no", "yes"]


def export(items: list[dict[str, Any]], path: Path) -> int:
    lines = [json.dumps(item).encode() + b"\n" for item in items]
    (exported,) = write_items({"item": partial(iter, lines)}, path)
    assert (exported.kind, exported.path) == ("item", path)
    return exported.items


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_parquet_has_every_row_in_its_order(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_export, "ROW_GROUP", rows)
    assert export(ITEMS, tmp_path / "x.parquet") == 3
    table = parquet.read_table(tmp_path / "x.parquet")
    assert table.column_names == [*OWN, *META]
    assert table.column("n").to_pylist() == [1, -2, 3]
    assert table.column("number").to_pylist() == [1.0, 0.5, None]
    assert table.column("yes").to_pylist() == [None, True, None]
    assert table.column("no").to_pylist() == [None] * 3
    assert table.column("_url").to_pylist() == ["u", "v", "w"]
    assert table.column("text").to_pylist() == ["ä", "=1+1", None]
    # Types that do not fit in one column, and numbers that do not fit in 64 bits, are JSON.
    assert table.column("mixed").to_pylist() == ["1", '"x"', "true"]
    assert table.column("part").to_pylist() == ['{"a": [1]}', None, "[2]"]
    assert table.column("large").to_pylist() == [str(MAX_INT), str(MAX_INT + 1), str(-MAX_INT - 1)]


def test_whole_numbers_stay_whole(tmp_path: Path) -> None:
    export([{"n": MAX_INT}, {"n": -MAX_INT}], tmp_path / "x.parquet")
    assert parquet.read_table(tmp_path / "x.parquet").column("n").to_pylist() == [MAX_INT, -MAX_INT]


def test_csv_has_an_empty_cell_for_what_an_item_lacks(tmp_path: Path) -> None:
    assert export(ITEMS, tmp_path / "x.csv") == 3
    with (tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
        header, first, second, _ = csv.reader(file)
    assert header == [*OWN, *META]
    assert first[:8] == ["ä", "1", "1", "1", str(MAX_INT), '{"a": [1]}', "", ""]
    assert second[0] == "'=1+1"


def test_several_kinds_replace_the_file_of_one(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    assert [(one.kind, one.path, one.items) for one in write_items({}, path)] == [("item", path, 0)]
    assert path.read_bytes() == b""
    both = write_items({"A": partial(iter, [b"1\n", b"2\n"]), "B": partial(iter, [b"3\n"])}, path)
    assert [(one.path.name, one.items) for one in both] == [("items-A.jsonl", 2), ("items-B.jsonl", 1)]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["items-A.jsonl", "items-B.jsonl"]
    assert (tmp_path / "items-A.jsonl").read_bytes() == b"1\n2\n"


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no/x\.jsonl.*: No such file or directory"):
        export([], tmp_path / "no" / "x.jsonl")


def test_items_that_cannot_be_read_leave_the_file_of_before(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("before")
    with pytest.raises(json.JSONDecodeError):
        write_items({"item": partial(iter, [b"{"])}, path)
    assert (path.read_text(), list(tmp_path.iterdir())) == ("before", [path])
