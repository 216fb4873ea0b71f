"""WalLimiter: who copies SQLite's log, when, and what it does about readers. Each commit here writes one page."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from swath.backends.sqlite import wal_limiter
from swath.backends.sqlite.connection import connect
from swath.backends.sqlite.wal_checkpointer import WalCheckpointer
from swath.backends.sqlite.wal_limiter import WalLimiter

FRAME_BYTES = 4096 + 24
LIMIT = 100  # frames
MORE = 12  # frames that fit into an eighth of the limit
PASSIVE, TRUNCATE = "PRAGMA wal_checkpoint(PASSIVE)", "PRAGMA wal_checkpoint(TRUNCATE)"


class Writer:
    """A connection that commits pages, its limiter, and what both do about the log."""

    def __init__(self, path: Path, *, page_size: int = 4096, padding: int = 0) -> None:
        self.path = path
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(
                f"PRAGMA page_size = {page_size}; CREATE TABLE page (number INTEGER); INSERT INTO page VALUES (0); "
                f"CREATE TABLE padding AS SELECT zeroblob({padding})"
            )
        self.connection = connect(str(path), synchronous="normal")
        self.connection.execute("UPDATE page SET number = 0")  # the log exists
        self.connection.execute(TRUNCATE)
        self.limiter = WalLimiter(str(path))
        self.limiter.adopt(self.connection)
        self.actions: list[str] = []
        self.connection.set_trace_callback(self._note)

    def _note(self, statement: str) -> None:
        if "checkpoint(" in statement:
            self.actions.append(statement)

    def commit(self, times: int = 1) -> None:
        for _ in range(times):
            self.connection.execute("UPDATE page SET number = number + 1")

    def count_until_due(self, *, postpone: bool = False) -> int:
        for number in range(10 * LIMIT):
            if self.limiter.is_due(postpone=postpone):
                return number
            self.commit()
        raise AssertionError("the log is never due")

    def shorten(self) -> list[str]:
        """Shorten the log, and return who did what since the last time."""
        self.limiter.shorten(self.connection)
        actions, self.actions = self.actions, []
        return actions

    @property
    def log_bytes(self) -> int:
        return Path(f"{self.path}-wal").stat().st_size

    def close(self) -> None:
        """Leave the files as they are: the last connection that closes removes the log."""
        self.limiter.close()


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Writer]:
    """Its thread only says when it is asked, so that a test knows what is in the database."""
    monkeypatch.setattr(wal_limiter, "WAL_BYTES", LIMIT * FRAME_BYTES)
    monkeypatch.setattr(wal_limiter, "WAL_SHARE", 0.0)
    monkeypatch.setattr(wal_limiter, "READER_MILLISECONDS", 1)
    writer = Writer(tmp_path / "x.db")
    monkeypatch.setattr(WalCheckpointer, "checkpoint", lambda _: writer.actions.append("thread"))
    monkeypatch.setattr(WalCheckpointer, "wait", lambda _: writer.actions.append("wait"))
    yield writer
    writer.close()
    writer.connection.close()


def test_the_thread_copies_the_log_and_then_a_commit_copies_the_rest(writer: Writer) -> None:
    assert writer.count_until_due() == LIMIT // 2
    assert writer.shorten() == ["thread"]
    writer.commit()
    assert writer.limiter.is_due()
    assert writer.shorten() == [PASSIVE]
    length = writer.log_bytes
    assert not writer.limiter.is_due(), "the next commit restarts the log"
    assert writer.count_until_due() == LIMIT // 2
    assert writer.log_bytes == length
    assert writer.shorten() == ["thread"], "the thread comes first in the next log, too"


def test_nothing_is_done_while_the_thread_copies(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert writer.count_until_due() == LIMIT // 2
    with monkeypatch.context() as patch:
        patch.setattr(WalCheckpointer, "is_running", True)
        assert writer.shorten() == []
    assert writer.shorten() == ["thread"]


def test_the_commits_of_others_wait_for_a_claim_until_three_quarters(writer: Writer) -> None:
    assert writer.count_until_due(postpone=True) == LIMIT // 2, "the thread needs no claim"
    writer.shorten()
    assert writer.limiter.is_due()
    assert not writer.limiter.is_due(postpone=True)
    assert writer.count_until_due(postpone=True) == LIMIT // 4


def test_a_log_at_its_limit_waits_for_the_thread_and_is_truncated(writer: Writer) -> None:
    writer.commit(LIMIT - 1)
    assert writer.limiter.is_due()
    assert writer.shorten() == ["thread"]
    writer.commit()
    assert writer.limiter.is_due()
    assert writer.shorten() == ["wait", TRUNCATE]
    assert writer.log_bytes == 0
    assert writer.connection.execute("PRAGMA busy_timeout").fetchone() == (0,)


def test_a_reader_lets_the_log_grow_to_twice_its_limit_and_is_then_reported(
    writer: Writer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal_limiter, "find_readers", lambda _: [3, 12])
    with closing(sqlite3.connect(writer.path, isolation_level=None)) as reader, caplog.at_level(logging.WARNING):
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM page").fetchone()
        writer.commit(LIMIT)
        assert writer.limiter.is_due()
        assert writer.shorten() == ["wait", TRUNCATE]
        assert writer.count_until_due() == LIMIT // 2
        assert writer.shorten() == ["thread"]
        writer.commit(LIMIT // 4)
        assert writer.limiter.is_due(), "three quarters of what is now the limit are not over"
        assert writer.shorten() == [PASSIVE]
        assert writer.count_until_due() == MORE, "the reader is in the way"
        assert caplog.text == ""
        writer.commit(LIMIT // 4 - MORE)
        assert writer.shorten() == ["wait", TRUNCATE]
        assert "process 3, 12 has a read transaction open" in caplog.text
        assert writer.count_until_due() == LIMIT // 2
        writer.commit(2 * LIMIT - LIMIT // 2 - 1)
        assert "wait" not in writer.shorten(), "it may be four times as long now"
        writer.commit()
        assert writer.shorten() == ["wait", TRUNCATE]
        assert caplog.text.count("has grown") == 2
        reader.execute("COMMIT")
    writer.commit(4 * LIMIT)
    assert writer.shorten() == ["wait", TRUNCATE]
    assert writer.log_bytes == 0
    assert writer.count_until_due() == LIMIT // 2


def test_the_warning_names_sizes_in_megabytes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal_limiter, "WAL_BYTES", 3_000_000)
    monkeypatch.setattr(wal_limiter, "WAL_SHARE", 0.0)
    monkeypatch.setattr(wal_limiter, "READER_MILLISECONDS", 1)
    monkeypatch.setattr(wal_limiter, "find_readers", lambda _: [])
    writer = Writer(tmp_path / "x.db", page_size=65536, padding=4_500_000)
    with closing(writer), closing(writer.connection), closing(sqlite3.connect(writer.path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM page").fetchone()
        for _ in range(2):
            writer.commit(3_100_000 // 65536)
            writer.limiter.is_due()
            writer.shorten()
    assert (
        f"{tmp_path / 'x.db'}-wal has grown to 6 MB, beside a database of 4 MB: another connection has" in caplog.text
    )


def test_after_a_failure_the_log_is_tried_again_when_it_is_longer(writer: Writer) -> None:
    def refuse(*_: object) -> int:
        return sqlite3.SQLITE_DENY

    assert writer.count_until_due() == LIMIT // 2
    writer.shorten()
    writer.connection.set_authorizer(refuse)
    assert writer.shorten() == []
    writer.connection.set_authorizer(None)
    assert writer.count_until_due() == MORE
    assert writer.shorten() == ["thread"]


def test_the_limit_grows_with_the_database(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert writer.connection.execute("PRAGMA journal_size_limit").fetchone() == (LIMIT * FRAME_BYTES,)
    monkeypatch.setattr(wal_limiter, "WAL_BYTES", 2 * LIMIT * FRAME_BYTES)
    writer.count_until_due()
    writer.shorten()
    writer.commit()
    writer.shorten()
    assert writer.connection.execute("PRAGMA journal_size_limit").fetchone() == (2 * LIMIT * FRAME_BYTES,)
    writer.commit()
    assert 1 + writer.count_until_due() == LIMIT


def test_a_closed_limiter_does_nothing(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "x.db")
    writer.commit(2 * LIMIT)
    writer.close()
    assert not writer.limiter.is_due()
    assert writer.shorten() == []
    assert writer.log_bytes > LIMIT * FRAME_BYTES
    writer.connection.close()


def test_a_full_disk_gets_the_room_of_the_log(writer: Writer) -> None:
    writer.commit(3)
    assert writer.log_bytes == 32 + 3 * FRAME_BYTES
    writer.limiter.make_room(writer.connection)
    assert writer.log_bytes == 0


def test_sqlite_does_not_copy_the_log_by_itself(writer: Writer) -> None:
    assert writer.connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
    assert writer.limiter.adopt(writer.connection) is writer.connection
