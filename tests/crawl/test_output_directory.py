"""The archive holds each settled record exactly once, whenever its process was killed (INV-5)."""

import dataclasses
import errno
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from swath.core.errors import UsageError
from swath.core.store import OutputMove
from swath.files.errors import OutputBusy, OutputDamaged
from swath.files.output_directory import OutputDirectory, RecordLocation
from swath.files.rotation import FileSeries
from tests.crawl import archiver
from tests.crawl.test_warc import check

STAMP = "20231114221320123"
ONE = FileSeries(
    "warc", prefix="swath", unique="h_1", suffix=".warc.gz", size=100, first_record=lambda name: name.encode()
)
LINES = FileSeries("pages", prefix="pages", unique="h_1", suffix=".jsonl", size=1_000)
FIRST, SECOND, THIRD = (f"swath-{STAMP}-{serial:05d}-h_1.warc.gz" for serial in range(3))
OPENING = len(FIRST)


def an_archive(directory: Path, committed: dict[str, int] | None = None) -> OutputDirectory:
    archive = OutputDirectory(directory, series=[ONE, LINES], timestamp=lambda: STAMP)
    archive.recover(committed or {})
    return archive


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if not path.name.endswith(".lock")}


def test_records_go_where_it_says(tmp_path: Path) -> None:
    with an_archive(tmp_path) as archive:
        placed = archive.append("warc", [b"a" * 30, b"b" * 50])
        assert placed == [RecordLocation(FIRST, OPENING, 30), RecordLocation(FIRST, OPENING + 30, 50)]
        assert archive.append("pages", [b"{}\n"]) == [RecordLocation(f"pages-{STAMP}-00000-h_1.jsonl", 0, 3)]
        archive.sync()
        assert archive.list_moves() == [
            OutputMove(FIRST, 0, OPENING + 80),
            OutputMove(f"pages-{STAMP}-00000-h_1.jsonl", 0, 3),
        ]
        archive.commit()
        assert archive.list_moves() == []
        assert archive.append("pages", [b"[]\n"])[0].offset == 3
        archive.commit()
    assert files_of(tmp_path)[FIRST] == FIRST.encode() + b"a" * 30 + b"b" * 50
    assert files_of(tmp_path)[f"pages-{STAMP}-00000-h_1.jsonl"] == b"{}\n[]\n"


def test_a_full_file_is_followed_by_another(tmp_path: Path) -> None:
    with an_archive(tmp_path) as archive:
        placed = archive.append("warc", [b"a" * 90, b"b" * 90, b"c" * 90])
        assert placed == [RecordLocation(name, OPENING, 90) for name in (FIRST, SECOND, THIRD)]
        archive.sync()
        assert [move.new for move in archive.list_moves()] == [OPENING + 90] * 3
        archive.commit()
    assert files_of(tmp_path)[SECOND] == SECOND.encode() + b"b" * 90


def test_a_cut_undoes_everything_since_the_last_commit(tmp_path: Path) -> None:
    with an_archive(tmp_path) as archive:
        archive.append("warc", [b"a" * 10])
        archive.append("pages", [b"1\n"])
        archive.commit()
        before = files_of(tmp_path)
        archive.append("warc", [b"b" * 90, b"c" * 90, b"d" * 90])
        archive.append("pages", [b"2\n"])
        archive.sync()
        archive.rollback()
        assert files_of(tmp_path) == before
        assert archive.list_moves() == []
        again = archive.append("warc", [b"e" * 5])
        assert again == [RecordLocation(FIRST, OPENING + 10, 5)]
        archive.commit()
    assert files_of(tmp_path)[FIRST] == FIRST.encode() + b"a" * 10 + b"e" * 5


def test_recovery_cuts_to_what_the_store_holds_and_goes_on_from_there(tmp_path: Path) -> None:
    with an_archive(tmp_path) as archive:
        archive.append("warc", [b"a" * 90, b"b" * 10])
        committed = {move.name: move.new for move in archive.list_moves()}
        archive.commit()
        archive.append("warc", [b"c" * 90, b"d" * 90])
        archive.commit()  # the store never heard of these
    foreign = f"swath-{STAMP}-00009-other_1.warc.gz"
    (tmp_path / foreign).write_bytes(b"kept")
    archive = OutputDirectory(tmp_path, series=[ONE, LINES], timestamp=lambda: STAMP)
    with archive:
        recovered = archive.recover(committed | {"elsewhere.warc.gz": 7})
        assert recovered.truncated == [OutputMove(SECOND, OPENING + 100, OPENING + 10)]
        assert recovered.removed == [THIRD]
        assert recovered.missing == ["elsewhere.warc.gz"]
        assert {name: len(data) for name, data in files_of(tmp_path).items()} == committed | {foreign: 4}
        assert archive.append("warc", [b"e"]) == [RecordLocation(SECOND, OPENING + 10, 1)]


def test_recovery_refuses_a_file_that_has_lost_records_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(b"x" * 50)
    (tmp_path / SECOND).write_bytes(b"x" * 50)
    with OutputDirectory(tmp_path, series=[ONE], timestamp=lambda: STAMP) as archive:
        with pytest.raises(OutputDamaged, match="is 50 bytes long, but 60 bytes are committed"):
            archive.recover({FIRST: 60})
        assert len(files_of(tmp_path)) == 2
        with pytest.raises(UsageError, match="before recover"):
            archive.append("warc", [b"a"])


@pytest.mark.parametrize("first", [[b"b"], []])
@pytest.mark.parametrize(
    ("change", "said"),
    [(Path.unlink, "was deleted"), (lambda path: os.truncate(path, 5), "is 5 bytes long instead of")],
)
def test_a_file_that_is_changed_while_it_is_written_to(
    tmp_path: Path, first: list[bytes], change: Callable[[Path], None], said: str
) -> None:
    """No records are settled in a file that was deleted or that has a gap."""
    with an_archive(tmp_path) as archive:
        archive.append("warc", [b"a" * 10])
        archive.commit()
        archive.append("warc", first)
        change(tmp_path / FIRST)
        after = files_of(tmp_path)
        with pytest.raises(OutputDamaged, match=f"{FIRST} {said}.*another program changed it"):
            archive.append("warc", [b"c"])
        archive.rollback()
        assert files_of(tmp_path) == after


def test_a_store_that_went_back_is_followed(tmp_path: Path) -> None:
    with an_archive(tmp_path) as archive:
        archive.append("warc", [b"a" * 10])
        earlier = {move.name: move.new for move in archive.list_moves()}
        archive.commit()
        archive.append("warc", [b"b" * 90, b"c" * 10])
        archive.commit()
        archive.append("warc", [b"d"])
        archive.recover(earlier)
        assert {name: len(data) for name, data in files_of(tmp_path).items()} == earlier
        assert archive.append("warc", [b"e"]) == [RecordLocation(FIRST, OPENING + 10, 1)]


def test_what_was_not_committed_is_decided_on_by_the_store(tmp_path: Path) -> None:
    """Whoever closes the archive may not have heard of the settlement that took place."""
    with an_archive(tmp_path) as archive:
        archive.append("warc", [b"a" * 10])
        moves = archive.list_moves()
    archive.close()
    before = files_of(tmp_path)
    with an_archive(tmp_path, {move.name: move.new for move in moves}):
        assert files_of(tmp_path) == before == {FIRST: FIRST.encode() + b"a" * 10}
    with an_archive(tmp_path, {}):
        assert files_of(tmp_path) == {}


def test_a_second_owner_is_refused(tmp_path: Path) -> None:
    with an_archive(tmp_path), pytest.raises(OutputBusy, match=f"is locked by process {os.getpid()} on"):
        an_archive(tmp_path)
    an_archive(tmp_path).close()


def test_a_full_disk_leaves_what_was_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with an_archive(tmp_path) as archive:
        archive.append("warc", [b"a" * 10])
        archive.commit()
        before = files_of(tmp_path)
        whole = os.pwritev
        calls = 0

        def full(descriptor: int, buffers: list[bytes], offset: int) -> int:
            nonlocal calls
            calls += 1
            if calls > 2:
                raise OSError(errno.ENOSPC, "No space left on device")
            return whole(descriptor, [buffers[0][:7]], offset)

        monkeypatch.setattr(os, "pwritev", full)
        with pytest.raises(OSError, match="No space left"):
            archive.append("warc", [b"b" * 20, b"c" * 20])
        monkeypatch.undo()
        archive.rollback()
        assert files_of(tmp_path) == before


def test_many_records_at_once(tmp_path: Path) -> None:
    big = FileSeries("big", prefix="big", unique="u", suffix=".bin", size=1 << 30)
    records = [random.Random(seed).randbytes(seed % 50) for seed in range(3_000)]
    with OutputDirectory(tmp_path, series=[big], timestamp=lambda: STAMP) as archive:
        archive.recover({})
        placed = archive.append("big", records)
        archive.commit()
    (data,) = files_of(tmp_path).values()
    assert data == b"".join(records)
    assert all(data[place.offset :][: place.length] == record for place, record in zip(placed, records, strict=True))


@pytest.mark.parametrize("seed", [int(os.environ.get("SWATH_SEED", "11")), 12])
def test_killed_at_any_line_it_holds_each_settled_record_once(tmp_path: Path, seed: int) -> None:
    print(f"SWATH_SEED={seed}")
    draw = random.Random(seed)
    kills = 0
    for attempt in range(1_000):
        line = draw.randint(1, 900) if attempt < 8 else 0
        done = subprocess.run(
            [sys.executable, archiver.__file__, str(tmp_path), str(draw.random())[2:9], str(line)],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        kills += done.returncode == -9
        if done.stdout == "finished\n":
            break
        assert done.returncode == -9, done.stderr
    assert kills >= 3
    holds_each_record_once(tmp_path)


def holds_each_record_once(directory: Path) -> None:
    store = archiver.Store(directory / "store.db")
    files = sorted(directory.glob("*.warc.gz"))
    found: Counter[int] = Counter()
    done, committed = store.done(), store.committed()
    store.connection.close()
    assert check(*files).returncode == 0
    for path in files:
        with path.open("rb") as file:
            records = ArchiveIterator(file)
            for record in records:
                if record.rec_type == "response":
                    number = int(record.http_headers.get_header("X-Number"))
                    found[number] += 1
                    assert record.content_stream().read() == archiver.body(number)
                    place = done[number]
                    assert (place.file, place.offset) == (path.name, records.get_record_offset())
    assert found == Counter(range(archiver.RECORDS))
    lines = [int(line) for path in sorted(directory.glob("*.jsonl")) for line in path.read_text().split()]
    assert Counter(lines) == Counter(range(archiver.RECORDS))
    assert {path.name: path.stat().st_size for path in [*files, *directory.glob("*.jsonl")]} == committed


def test_names_of_the_series_are_those_of_the_convention() -> None:
    assert ONE.format_file_name(STAMP, 0) == FIRST
    assert ONE.parse_serial(THIRD) == 2
    assert ONE.parse_serial(THIRD + ".bak") is None
    with pytest.raises(UsageError, match="slash"):
        FileSeries("x", prefix="../x", unique="u", suffix="", size=1)


def test_series_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="two series have the same name: warc, warc"):
        OutputDirectory(tmp_path / "out", series=[ONE, ONE], timestamp=lambda: STAMP)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [({"size": 0}, "size=0 must be at least 1 byte"), ({"prefix": "a/b"}, "slash"), ({"unique": "a\0b"}, "NUL")],
)
def test_a_series_whose_files_cannot_be_written_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        dataclasses.replace(LINES, **changes)
    assert dataclasses.replace(LINES, size=1).size == 1


def test_files_that_are_full_are_finished_once_they_are_committed(tmp_path: Path) -> None:
    with an_archive(tmp_path) as archive:
        archive.append("warc", [b"a" * 99, b"b" * 99, b"c"])
        assert archive.take_finished("warc") == [], "nothing is committed"
        archive.sync()
        archive.commit()
        assert archive.take_finished("warc") == [FIRST, SECOND]
        assert archive.take_finished("warc") == [], "each is named once"
        assert archive.take_finished("pages") == []
        archive.append("warc", [b"d" * 99, b"e"])
        archive.rollback()
        assert archive.take_finished("warc") == [], "what was appended is gone"
        archive.append("warc", [b"d" * 99, b"e"])
        archive.commit()
        assert archive.take_finished("warc") == [THIRD]
