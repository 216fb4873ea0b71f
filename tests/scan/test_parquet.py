"""Parquet by row groups."""

from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from swath import UsageError
from swath.scan.sources import parquet as module
from tests.scan.driving import scan


def write(path: Path, rows: int) -> None:
    pq.write_table(pa.table({"n": range(rows), "email": [f"{n}@X.org" for n in range(rows)]}), path, row_group_size=300)


def test_every_row_is_looked_at_once_and_can_be_again(tmp_path: Path) -> None:
    source = tmp_path / "data.parquet"
    write(source, 1_000)
    found = scan(source, tmp_path / "out.jsonl", check="odd")
    assert found.proof.counts.records == 1_000
    assert {int(finding["key"]): finding["data"]["n"] for finding in found.findings} == {
        n: n for n in range(1, 1_000, 2)
    }
    assert found.proof.status.done == 4
    again = scan(source, tmp_path / "out.jsonl", check="odd", recheck=True)
    assert again.proof.open == {"odd": 500}
    assert len(again.findings) == 1_000
    assert (again.proof.counts.records, again.proof.counts.rechecked) == (1_000, 500)


def test_a_damaged_row_group_is_a_finding_and_the_others_are_read(tmp_path: Path) -> None:
    source = tmp_path / "data.parquet"
    write(source, 1_000)
    content = bytearray(source.read_bytes())
    start = pq.ParquetFile(source).metadata.row_group(1).column(0).dictionary_page_offset
    content[start : start + 20] = b"\xff" * 20
    source.write_bytes(content)
    found = scan(source, tmp_path / "out.jsonl", check="odd")
    assert found.keys("damaged") == {"300"}
    assert found.proof.counts.records == 700
    assert found.codes["odd"] == 350
    write(source, 1_000)
    again = scan(source, tmp_path / "out.jsonl", check="odd", recheck=True)
    assert again.proof.open == {"odd": 500}
    assert again.proof.counts.records == 1_000


def test_what_can_be_read_of_a_damaged_row_group_is_looked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 50)
    monkeypatch.setattr(module, "DECODED_ROWS", 300)
    source = tmp_path / "data.parquet"
    rows = pa.table({"n": range(2_000)})
    pq.write_table(rows, source, use_dictionary=False, data_page_size=800, write_batch_size=100, compression="gzip")
    whole = source.read_bytes()
    column = pq.ParquetFile(source).metadata.row_group(0).column(0)
    middle = column.data_page_offset + column.total_compressed_size // 2
    source.write_bytes(whole[:middle] + b"\xff" * 100 + whole[middle + 100 :])
    found = scan(source, tmp_path / "out.jsonl", check="odd")
    records = found.proof.counts.records
    assert records % 300  # the last steps before the damage were small ones
    assert 200 < records < 1_800
    assert found.keys("damaged") == {f"{records}"}
    source.write_bytes(whole)
    again = scan(source, tmp_path / "out.jsonl", check="odd", recheck=True)
    assert again.proof.counts.records == 2_000
    assert again.proof.open == {"odd": 1_000}


def test_a_file_that_was_written_anew_is_not_gone_on_with(tmp_path: Path) -> None:
    source = tmp_path / "data.parquet"
    write(source, 1_000)
    scan(source, tmp_path / "out.jsonl", check="odd")
    write(source, 900)
    with pytest.raises(UsageError, match="had 1,000 rows when the scan started and has 900 now"):
        scan(source, tmp_path / "out.jsonl", check="odd", recheck=True)


def test_wide_rows_are_decoded_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DECODED_BYTES", 10_000)
    source = tmp_path / "data.parquet"
    pq.write_table(pa.table({"text": [f"{n:01000}" for n in range(100)]}), source, compression="none")
    steps = [
        step for step in module.ParquetSource(str(source)).read({"group": 0, "from": 15}) if isinstance(step, list)
    ]
    assert max(map(len, steps)) <= 10
    assert [record.key for step in steps for record in step] == [str(n) for n in range(15, 100)]


def test_rows_without_columns_are_rows(tmp_path: Path) -> None:
    source = tmp_path / "data.parquet"
    pq.write_table(pa.table({"n": range(7)}).select([]), source)
    assert scan(source, tmp_path / "out.jsonl", check="every").proof.counts.records == pq.read_metadata(source).num_rows


def test_values_that_python_has_none_for_are_texts_and_no_row_is_lost(tmp_path: Path) -> None:
    source = tmp_path / "data.parquet"
    nanoseconds = [1_577_836_800_000_000_000, 1_577_836_800_000_000_001]
    texts = pa.array([b"ok", b"a\xff"], pa.binary())
    columns = {
        "time": pa.array(nanoseconds, pa.timestamp("ns")),
        "far": pa.array([0, 2**62], pa.timestamp("us")),
        "day": pa.array([0, 2**30], pa.date32()),
        "text": pa.Array.from_buffers(pa.string(), 2, texts.buffers()),
        "nested": pa.array([[nanoseconds[0]], [nanoseconds[1]]], pa.list_(pa.timestamp("ns"))),
    }
    pq.write_table(pa.table(columns), source)
    (records,) = module.ParquetSource(str(source)).read({"group": 0, "from": 0})
    assert isinstance(records, list)
    first, second = (record.value for record in records)
    assert (first["time"], second["time"]) == (datetime.fromisoformat("2020-01-01"), "2020-01-01 00:00:00.000000001")
    assert (first["far"], str(2**62) in second["far"]) == (datetime.fromisoformat("1970-01-01"), True)
    assert (first["day"], str(2**30) in second["day"]) == (date(1970, 1, 1), True)
    assert (first["text"], second["text"]) == ("ok", b"a\xff")
    assert (first["nested"], "00:00:00.000000001" in second["nested"]) == ([datetime.fromisoformat("2020-01-01")], True)
