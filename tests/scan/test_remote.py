"""Object stores, as users of fsspec have them: S3 from a server on this machine, and memory."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from swath import UsageError
from swath.scan.sources import tree
from swath.scan.sources.filesystems import RemoteTree
from tests.s3 import s3_bucket
from tests.scan.driving import scan


@pytest.fixture
def bucket() -> Iterator[Any]:
    with s3_bucket() as filesystem:
        yield filesystem


def test_a_bucket_is_a_tree(bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "SECONDS", 0.0)
    monkeypatch.setattr(RemoteTree, "budget", 10)
    monkeypatch.setattr(tree, "FILES_PER_ITEM", 7)
    keys = {f"{number % 3}/{'deep/' * (number % 2)}{number}.txt" for number in range(30)}
    for key in keys:
        bucket.pipe(f"bucket/pre/{key}", b"x" * (len(key) % 2))
    bucket.pipe("bucket/elsewhere", b"")
    found = scan("s3://bucket/pre", tmp_path / "out.jsonl", check="empty", workers=8)
    assert found.proof.counts.records == 30
    assert found.keys("empty") == {key for key in keys if len(key) % 2 == 0}
    mended = scan("s3://bucket/pre", tmp_path / "out.jsonl", check="empty", fix="fill", recheck=True)
    assert (mended.code, mended.proof.open) == (0, {})
    assert bucket.cat(f"bucket/pre/{min(found.keys('empty'))}") == b"full"


def test_files_of_records_in_a_bucket(bucket: Any, tmp_path: Path) -> None:
    lines = b"".join(json.dumps({"n": number}).encode() + b"\n" for number in range(100))
    bucket.pipe("bucket/records.jsonl", lines)
    bucket.pipe("bucket/records.jsonl.gz", gzip.compress(lines))
    pq.write_table(pa.table({"n": range(100)}), tmp_path / "data.parquet")
    bucket.put(str(tmp_path / "data.parquet"), "bucket/data.parquet")
    for name in ("records.jsonl", "records.jsonl.gz", "data.parquet"):
        found = scan(f"s3://bucket/{name}", tmp_path / f"out-{name}.jsonl", check="odd")
        assert found.codes == {"odd": 50}


def test_what_fsspec_does_not_list_is_counted_as_skipped(bucket: Any, tmp_path: Path) -> None:
    odd = ("pre/a//b", "pre//c", "pre/content/")
    for key in (*odd, "pre/a/d"):
        bucket.call_s3("put_object", Bucket="bucket", Key=key, Body=b"x")
    bucket.call_s3("put_object", Bucket="bucket", Key="pre/a/", Body=b"")  # stands for the prefix
    try:
        found = scan("s3://bucket/pre", tmp_path / "out.jsonl", check="every")
    finally:
        for key in odd:  # which it does not remove either
            bucket.call_s3("delete_object", Bucket="bucket", Key=key)
    assert found.keys("seen") == {"a/d"}
    assert (found.proof.counts.records, found.proof.counts.skipped) == (1, 3)


def test_what_is_not_in_a_bucket(bucket: Any, tmp_path: Path) -> None:
    for source in ("s3://bucket/nothing", "s3://no-such-bucket/x"):
        with pytest.raises(UsageError, match=r"does not exist|cannot be reached"):
            scan(source, tmp_path / "out.jsonl", check="empty")


def test_an_error_on_the_way_is_tried_again_and_then_a_dead_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/scan/a/1", b"")
    memory.pipe("/scan/b/2", b"")
    monkeypatch.setattr(tree, "SECONDS", 0.0)
    monkeypatch.setattr(RemoteTree, "budget", 1)
    monkeypatch.setattr("swath.scan.workspace.MAX_ATTEMPTS", 1)
    listed = RemoteTree.list

    def listing(self: RemoteTree, path: str) -> Any:
        if path == "b":
            raise OSError("connection reset")
        return listed(self, path)

    monkeypatch.setattr(RemoteTree, "list", listing)
    found = scan("memory://scan", tmp_path / "out.jsonl", check="empty")
    assert found.keys("empty") == {"a/1"}
    assert (found.code, found.proof.status.dead, found.proof.clean) == (1, 1, False)
    store = f"sqlite:///{tmp_path / 'out.jsonl'}.swath.db"
    assert f"1 slice dead. List them with `swath dead --store '{store}'`" in " ".join(capsys.readouterr().err.split())
    memory.rm("/scan", recursive=True)
