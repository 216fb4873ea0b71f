"""The sink of a run: what it may be, and in which thread it is called."""

import sqlite3
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import swath

Rows = Sequence[Any]


def write(connection: sqlite3.Connection, rows: Rows) -> str:
    connection.executemany("INSERT INTO word VALUES (?)", [(row,) for row in rows])
    return threading.current_thread().name


class Sinks:
    """Sinks of each kind, and the threads in which they write."""

    def __init__(self) -> None:
        self.threads: list[str] = []

    def plain(self, connection: sqlite3.Connection, rows: Rows) -> None:
        self.threads.append(write(connection, rows))

    async def coroutine(self, connection: sqlite3.Connection, rows: Rows) -> None:
        self.threads.append(write(connection, rows))

    def returns_awaitable(self, connection: sqlite3.Connection, rows: Rows) -> Awaitable[None]:
        return self.coroutine(connection, rows)


@pytest.mark.parametrize(("kind", "in_loop"), [("plain", False), ("coroutine", True), ("returns_awaitable", True)])
async def test_a_sink_may_be_plain_or_async(tmp_path: Path, kind: str, in_loop: bool) -> None:
    path = tmp_path / "work.db"
    sinks = Sinks()
    sink: Callable[[Any, Rows], Any] = getattr(sinks, kind)

    async def handle(item: swath.Item) -> swath.Done:
        return item.done(rows=[item.key, item.key.upper()])

    async with swath.open(f"sqlite:///{path}") as frontier:
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE word (text TEXT)")
        await frontier.add(["a", "b"])
        summary = await frontier.run(handle, sink=sink, handle_signals=False)
    assert summary.done == 2
    assert {name == threading.current_thread().name for name in sinks.threads} == {in_loop}
    with sqlite3.connect(path) as connection:
        assert sorted(connection.execute("SELECT text FROM word")) == [("A",), ("B",), ("a",), ("b",)]
