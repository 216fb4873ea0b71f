"""Frontiers in a database with other tables: several in one file, each with its own schema."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

import swath
from swath.backends.sqlite import SqliteStore, migrate
from swath.backends.sqlite.create import APPLICATION_ID
from swath.backends.sqlite.location import SqliteLocation
from swath.backends.sqlite.migration import list_migrations
from swath.backends.sqlite.store import POLL_SECONDS
from swath.core.clock import ManualClock
from swath.core.errors import InvalidStoreURL, NotAFrontier, SchemaTooNew
from swath.core.store import ClaimRequest
from tests.recorder import PATIENCE
from tests.unit.test_sqlite_file import edit, new, snapshot

ACCOUNTS = 12
LEASE = 60
DATA = [("ada", 1), ("bob", 2)]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A database with a table, an index and a mark of its owner's."""
    path = str(tmp_path / "app.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE users (name TEXT, age INTEGER)")
        connection.execute("CREATE INDEX users_age ON users (age)")
        connection.executemany("INSERT INTO users VALUES (?, ?)", DATA)
        connection.execute("PRAGMA application_id = 77")
        connection.execute("PRAGMA user_version = 5")
    return path


@pytest.fixture
def owner(path: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


async def create(path: str, schema: str | None) -> None:
    await (await SqliteStore.open(path, schema=schema)).close()


def pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


async def test_two_frontiers_and_the_owners_table_in_one_file(path: str, owner: sqlite3.Connection) -> None:
    async with (
        swath.open(f"sqlite:///{path}?schema=users_backfill", partitions=2) as first,
        swath.open(f"sqlite:///{path}?schema=mail&synchronous=normal") as second,
    ):
        assert await first.add(["a", "b", "c"]) == 3
        assert await second.add(["a"]) == 1, "known to the other only"
        claim = await first.claim(limit=2)
        assert claim is not None
        await claim.settle([item.done() for item in claim.items])
        await first.learn({"x": 1})
        assert await second.facts(["x"]) == {}
        await second.pause()
        assert await first.claim() is not None
        status, other = await first.status(), await second.status()
        assert (status.done, status.claimed, other.ready, other.done) == (2, 1, 1, 0)
        assert (status.paused, other.paused) == (False, True)
        assert (first._store.settings.partitions, second._store.settings.partitions) == (2, 1)
    assert owner.execute("SELECT * FROM users").fetchall() == DATA
    assert (pragma(owner, "application_id"), pragma(owner, "user_version")) == (77, 5), "its owner's"
    owner.close()
    assert sorted(os.listdir(os.path.dirname(path))) == ["app.db", "app.db-turn"], "one queue for all who write"


async def test_all_names_begin_with_the_schemas(path: str, owner: sqlite3.Connection) -> None:
    await create(path, "mail")
    names = {name for (name,) in owner.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")}
    assert {name for name in names if not name.startswith("mail_")} == {"users", "users_age"}
    assert "mail_item" in names


async def test_the_default_name_can_be_asked_for(path: str, owner: sqlite3.Connection) -> None:
    """Only so does it come to stand beside other tables; once it does, it need not be named."""
    with pytest.raises(NotAFrontier, match=r"something else.*\?schema=name"):
        await SqliteStore.open(path)
    await create(path, "swath")
    await (await SqliteStore.open(path, create=False)).close()
    assert pragma(owner, "application_id") == 77


async def test_a_named_frontier_can_join_one_that_has_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "work.db")
    await create(path, None)
    await create(path, "more")
    with closing(sqlite3.connect(path)) as connection:
        assert pragma(connection, "application_id") == APPLICATION_ID
    fresh = str(tmp_path / "fresh.db")
    await create(fresh, "more")
    with pytest.raises(NotAFrontier, match="something else"):
        await SqliteStore.open(fresh)


async def test_statements_are_made_once_for_each_name() -> None:
    one, two, other = SqliteLocation.of("a", "mail"), SqliteLocation.of("b", "mail"), SqliteLocation.of("a", "post")
    assert one.sql["claim_items"] is two.sql["claim_items"]
    assert "mail_claimed" in one.sql["claim_items"]
    assert "post_claimed" in other.sql["claim_items"]


# what is refused


@pytest.mark.parametrize("name", ["", "Mail", "2nd", "a-b", "a b", "ä", "x" * 41, "sqlite", "sqlite_x", 'a"', "a\n"])
async def test_names_that_cannot_be(path: str, name: str) -> None:
    before = snapshot(path)
    with pytest.raises(InvalidStoreURL, match="cannot begin the name of a table"):
        await SqliteStore.open(path, schema=name)
    assert snapshot(path) == before


async def test_the_longest_name(path: str) -> None:
    await create(path, "x" * 40)


@pytest.mark.parametrize("name", ["mail_item", "Mail_Lane_Ready"])
async def test_a_name_that_is_taken(path: str, owner: sqlite3.Connection, name: str) -> None:
    """SQLite tells no small letters from capitals."""
    owner.execute(f"CREATE TABLE {name} (x)")
    owner.close()
    before = snapshot(path)
    for create in (True, False):
        with pytest.raises(NotAFrontier, match=f"has {name.lower()} already.*schema=mail"):
            await SqliteStore.open(path, schema="mail", create=create)
    assert snapshot(path) == before


async def test_a_name_that_is_not_there(path: str) -> None:
    before = snapshot(path)
    for call in (SqliteStore.open(path, schema="typo", create=False), migrate(path, schema="typo")):
        with pytest.raises(NotAFrontier, match="no frontier named typo in"):
            await call
    assert snapshot(path) == before, "left alone, and in its owner's journal mode"


def test_unknown_words_in_a_url_are_named() -> None:
    with pytest.raises(
        InvalidStoreURL, match=r"unknown parameter 'scheme' \(did you mean 'schema'\?\); use schema, synchronous"
    ):
        swath.open("sqlite:///app.db?scheme=x")


# others at work


async def test_the_owner_has_it_open_in_wal_mode(path: str, owner: sqlite3.Connection) -> None:
    """What was committed is in the log, and not in the file, for the one as for the other."""
    owner.execute("PRAGMA journal_mode = wal")
    owner.execute("PRAGMA wal_autocheckpoint = 0")
    owner.execute("CREATE TABLE mail_item (x)")
    with pytest.raises(NotAFrontier, match="mail_item already"):
        await SqliteStore.open(path, schema="mail")
    owner.execute("DROP TABLE mail_item")
    await create(path, "mail")
    assert b"mail_frontier" not in snapshot(path)[0]
    await (await SqliteStore.open(path, schema="mail", create=False)).close()


async def test_the_owner_takes_a_name_at_the_last_moment(path: str, owner: sqlite3.Connection) -> None:
    """Looked at again under the write lock, for which it has to wait here."""
    owner.execute("BEGIN IMMEDIATE")
    owner.execute("CREATE TABLE mail_item (x)")
    opening = asyncio.create_task(SqliteStore.open(path, schema="mail"))
    await asyncio.wait({opening}, timeout=0.2)
    assert not opening.done()
    owner.execute("COMMIT")
    with pytest.raises(NotAFrontier, match="mail_item already"):
        await opening


async def test_many_create_at_the_same_moment(path: str) -> None:
    stores = await asyncio.gather(*(SqliteStore.open(path, schema=f"s{number % 3}") for number in range(12)))
    added = await asyncio.gather(*(store.add([new(f"{number}")]) for number, store in enumerate(stores)))
    assert added == [1] * 12
    assert [(await store.status()).partitions[0].ready for store in stores] == [4] * 12
    await asyncio.gather(*(store.close() for store in stores))


@pytest.mark.parametrize("claimed", [False, True])
async def test_what_others_do_in_the_file_wakes_nobody(path: str, owner: sqlite3.Connection, claimed: bool) -> None:
    """Who waits for work would claim in vain, in everybody's way, as often as a busy neighbour commits."""
    store, again, near = [await SqliteStore.open(path, schema=name) for name in ("mail", "mail", "post")]
    if claimed:
        await store.claim(ClaimRequest(1, LEASE, "worker", 1, [0]))
    waiting = asyncio.create_task(store.wait(10 * PATIENCE))
    for number in range(5):
        await near.add([new(f"{number}")])
        owner.execute("INSERT INTO users VALUES ('carl', 3)")
        await asyncio.wait({waiting}, timeout=POLL_SECONDS)
    assert not waiting.done()
    await again.add([new("work")])
    async with asyncio.timeout(PATIENCE):
        await waiting
    waiting = asyncio.create_task(store.wait(10 * PATIENCE))
    async with asyncio.timeout(PATIENCE):
        for number in count(1):  # the first may come before the wait has begun
            await again.change_settings(min_interval=number)
            if (await asyncio.wait({waiting}, timeout=POLL_SECONDS))[0]:
                break
    for each in (store, again, near):
        await each.close()


# formats


async def test_each_frontier_has_its_own_format(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await create(path, "mail")
    await create(path, "post")
    known = list_migrations()
    extra = known[-1]._replace(number=2, name="0002_extra", script="CREATE TABLE swath_extra (a);\n")
    monkeypatch.setattr("swath.backends.sqlite.migration.list_migrations", lambda: [*known, extra])
    assert await swath.migrate(f"sqlite:///{path}?schema=mail") == ["0002_extra"]
    edit(path, "INSERT INTO mail_extra VALUES (1)")
    assert await swath.migrate(f"sqlite:///{path}?schema=post") == ["0002_extra"]
    edit(path, "UPDATE mail_frontier SET format = 99")
    with pytest.raises(SchemaTooNew, match=r"frontier mail in .*app\.db has format 99"):
        await SqliteStore.open(path, schema="mail")
    await (await SqliteStore.open(path, schema="post")).close()


# exactly once


async def work(path: str, start: int, dies: str) -> None:
    """In a child: credit each account once, and die by SIGKILL at the third, before or after the commit."""
    clock = ManualClock(start)
    async with swath.open(f"sqlite:///{path}?schema=credit", clock=clock) as frontier:
        bank = sqlite3.connect(path, isolation_level=None)
        await frontier.add(str(n) for n in range(ACCOUNTS))
        turns = 0
        while claim := await frontier.claim(limit=4, lease=LEASE):
            for item in claim.items:
                turns += 1
                bank.execute("BEGIN IMMEDIATE")
                bank.execute("UPDATE account SET credits = credits + 1 WHERE id = ?", (int(item.key),))
                await claim.settle([item.done()], connection=bank)
                if turns == 3 and dies == "before":
                    os.kill(os.getpid(), signal.SIGKILL)
                bank.execute("COMMIT")
                if turns == 3 and dies == "after":
                    os.kill(os.getpid(), signal.SIGKILL)
        bank.close()


async def test_exactly_once_with_the_owners_table_whoever_is_killed(path: str, owner: sqlite3.Connection) -> None:
    """INV-5, in a file that is the owner's."""
    owner.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, credits INTEGER NOT NULL DEFAULT 0)")
    owner.executemany("INSERT INTO account (id) VALUES (?)", [(n,) for n in range(ACCOUNTS)])
    script = "import asyncio, sys; from tests.unit.test_sqlite_schema import work\n"
    script += "asyncio.run(work(sys.argv[1], int(sys.argv[2]), sys.argv[3]))"
    credited = []
    for turn, dies in enumerate(["before", "after", "never"]):
        start = (1 + turn) * 10 * LEASE * 1_000_000  # the lease of whoever died has ended
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, path, str(start), dies, cwd=Path(__file__).parents[2]
        )
        assert await process.wait() == (0 if dies == "never" else -signal.SIGKILL)
        credited.append(owner.execute("SELECT sum(credits) FROM account").fetchone()[0])
    assert credited == [2, 5, ACCOUNTS]
    assert owner.execute("SELECT DISTINCT credits FROM account").fetchall() == [(1,)]
    async with swath.open(f"sqlite:///{path}?schema=credit", create=False) as frontier:
        status = await frontier.status()
        assert (status.done, status.dead, status.claimed, status.ready) == (ACCOUNTS, 0, 0, 0)


# the command line


def test_a_command_takes_the_name(path: str, owner: sqlite3.Connection) -> None:
    store = f"sqlite:///{path}?schema=mail"
    command = [sys.executable, "-m", "swath", "db", "init", "--partitions", "3", "--store", store]
    assert f"{store} is ready" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert owner.execute("SELECT count(*) FROM mail_partition_state").fetchone() == (3,)
