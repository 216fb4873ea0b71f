"""The file of a frontier in SQLite: making it, refusing what is not ours, migrating it, and running out of room."""

import asyncio
import multiprocessing
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import swath
from swath import Item
from swath.backends.sql import parse, read
from swath.backends.sqlite import SqliteStore, migrate
from swath.backends.sqlite.connection import NETWORK_FILE_SYSTEMS, find_file_system
from swath.backends.sqlite.create import APPLICATION_ID
from swath.backends.sqlite.format import FORMAT
from swath.backends.sqlite.migration import list_migrations, run_script
from swath.core.errors import (
    InvalidSetting,
    InvalidStoreURL,
    NotAFrontier,
    SchemaError,
    SchemaOutdated,
    SchemaTooNew,
    StoreFull,
    StoreUnavailable,
    SwathError,
)
from swath.core.store import ClaimRef, ClaimRequest, EncodedItem, Fact, LaneChange, Move, MoveKind, Settings, Settlement
from tests.forking import passes_in_a_child

UNRELEASED = Path(__file__).parents[1] / "fixtures" / "sqlite_unreleased.sql"


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "work.db")


def new(key: str, payload: str | None = None) -> EncodedItem:
    return EncodedItem(0, key.encode().rjust(20, b"\0"), "lane", 3, key, payload, None, 1)


async def create(path: str, settings: Settings | None = None) -> None:
    await (await SqliteStore.open(path, settings=settings)).close()


def edit(path: str, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def write(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)


def exists(path: str) -> bool:
    return Path(path).exists()


def snapshot(path: str) -> tuple[bytes, list[str]]:
    """The content of a file and what stands beside it."""
    return Path(path).read_bytes(), sorted(os.listdir(Path(path).parent))


# creating and opening


async def test_a_frontier_is_created_once_and_keeps_its_settings(path: str) -> None:
    await create(path, Settings(4, min_interval=7, concurrency=2, max_attempts=3))
    store = await SqliteStore.open(path)
    assert store.settings == Settings(4, 7, 2, 3)
    assert len((await store.status()).partitions) == 4
    await store.close()
    store = await SqliteStore.open(path, settings=Settings(8, min_interval=99))
    assert store.settings == Settings(4, 7, 2, 3), "whoever opens it decides what to say or to change"
    await store.close()


async def test_the_file_is_durable_and_marked(path: str) -> None:
    store = await SqliteStore.open(path)
    settings = {
        name: store._writer._connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "secure_delete", "application_id")
    }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 0, "application_id": APPLICATION_ID}
    await store.close()
    store = await SqliteStore.open(path, synchronous="normal")
    assert store._writer._connection.execute("PRAGMA synchronous").fetchone() == (1,)
    await store.close()
    with pytest.raises(InvalidSetting, match="full or normal"):
        await SqliteStore.open(path, synchronous="off")


async def test_an_empty_file_becomes_a_frontier(path: str) -> None:
    write(path, b"")
    await create(path)


def test_a_crash_while_creating_leaves_nothing_in_the_way(path: str) -> None:
    """A journal that is still there is undone, and the frontier made after all."""
    script = """
        import sqlite3
        from swath.backends.sqlite import connection
        class Dying(sqlite3.Connection):
            def execute(self, statement, *values):
                if statement == "COMMIT":
                    super().execute("PRAGMA cache_spill = 1")  # so that pages are written before the commit
                    super().execute("CREATE TABLE x AS SELECT randomblob(9000000) AS y")
                    os._exit(0)
                return super().execute(statement, *values)
        connection.sqlite3 = type("fake", (), {**vars(sqlite3), "connect": lambda *a, **k: sqlite3.connect(
            *a, **k, factory=sqlite3.Connection if "uri" in k else Dying)})
        asyncio.run(SqliteStore.open(sys.argv[1]))
    """
    child(script, path)
    assert exists(f"{path}-journal")
    asyncio.run(create(path))
    assert not exists(f"{path}-journal")


async def test_nothing_is_created_unless_asked_for(path: str) -> None:
    with pytest.raises(NotAFrontier, match="there is no frontier at"):
        await SqliteStore.open(path, create=False)
    assert not exists(path)
    await create(path)
    await (await SqliteStore.open(path, create=False)).close()


def open_and_add(path: str, number: int) -> None:
    """In a child: open at the same moment as the others, and add one item."""

    async def main() -> None:
        store = await SqliteStore.open(path, settings=Settings(2))
        assert await store.add([new(f"key {number}")]) == 1
        await store.close()

    asyncio.run(main())


def test_processes_that_create_the_same_file_all_succeed(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(6) as pool:
        for attempt in range(5):
            path = str(tmp_path / f"{attempt}.db")
            pool.starmap(open_and_add, [(path, number) for number in range(6)], chunksize=1)
            connection = sqlite3.connect(path)
            assert connection.execute("SELECT ready FROM swath_partition_state").fetchall() == [(6,), (0,)]
            assert connection.execute("SELECT count(*) FROM swath_migration").fetchone() == (len(list_migrations()),)
            connection.close()


# what is not ours


async def refused(path: str, error: type[SwathError], message: str) -> None:
    before = snapshot(path)
    for call in (SqliteStore.open(path), SqliteStore.open(path, create=False), migrate(path)):
        with pytest.raises(error, match=message):
            await call
    assert before == snapshot(path), "left alone"


async def test_a_file_that_is_no_database_is_refused(path: str) -> None:
    write(path, b"once upon a time, " * 100)
    await refused(path, NotAFrontier, "not an SQLite database")


@pytest.mark.parametrize("mode", ["delete", "wal"])
async def test_a_database_of_somebody_else_is_refused(path: str, mode: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("CREATE TABLE swath_frontier (mine TEXT)")
    connection.close()
    await refused(path, NotAFrontier, "something else")


async def test_a_database_of_somebody_else_in_use_is_refused(path: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("CREATE TABLE swath_frontier (mine TEXT)")
    await refused(path, NotAFrontier, "something else")
    connection.close()


async def test_paths_that_cannot_hold_a_file(tmp_path: Path) -> None:
    for path, error, message in [
        (str(tmp_path / "missing" / "work.db"), InvalidStoreURL, "missing does not exist"),
        (str(tmp_path), InvalidStoreURL, "is a directory"),
        ("", InvalidStoreURL, "is not the name of a file"),
        (":memory:", InvalidStoreURL, "is not the name of a file"),
    ]:
        with pytest.raises(error, match=message):
            await SqliteStore.open(path)


async def test_a_link_leads_to_the_same_frontier(path: str) -> None:
    """SQLite keeps the log beside the file, and so are the turns of those who write."""
    link = f"{path}.link"
    os.symlink(path, link)
    async with swath.open(f"sqlite:///{path}?schema=one"), swath.open(f"sqlite:///{path}?schema=two") as frontier:
        await frontier.add("a")
        async with swath.open(f"sqlite:///{link}?schema=two", create=False) as same:
            assert (await same.status()).ready == 1
    assert not [name for name in os.listdir(os.path.dirname(path)) if name.startswith("work.db.link-")]


async def test_a_file_of_two_names_is_refused_under_both(path: str) -> None:
    """Under each it would have a log of its own: what was claimed under one would be claimed again under the other."""
    await create(path)
    os.link(path, f"{path}.other")
    for name in (path, f"{path}.other"):
        with pytest.raises(InvalidStoreURL, match="has 2 names"):
            await SqliteStore.open(name)
    os.unlink(f"{path}.other")
    await create(path)


@pytest.mark.parametrize("name", [b"caf\xe9.db", "café.db".encode(), b"a#b?c%20.db"])
async def test_any_name_of_a_file_will_do(name: bytes, tmp_path: Path) -> None:
    path = os.path.join(tmp_path, os.fsdecode(name))
    await create(path)
    await create(path)
    assert os.fsencode(path) == os.path.join(os.fsencode(tmp_path), name)
    assert name in os.listdir(os.fsencode(tmp_path))


async def test_a_fragment_is_not_taken_for_the_end_of_a_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidStoreURL, match="write %23 instead"):
        await swath.open(f"sqlite:///{tmp_path}/part#1.db")
    async with swath.open(f"sqlite:///{tmp_path}/part%231.db"):
        assert "part#1.db" in os.listdir(tmp_path)


async def test_a_damaged_file_says_so(path: str) -> None:
    await create(path)
    content, _ = snapshot(path)
    write(path, content[:4096] + os.urandom(len(content) - 4096))
    with pytest.raises(SwathError, match="damaged") as raised:
        await SqliteStore.open(path)
    assert not isinstance(raised.value, StoreUnavailable), "waiting does not mend it"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(
    ("edited", "back", "said"),
    [
        (
            "ALTER TABLE swath_partition_state RENAME COLUMN time TO moment",
            "ALTER TABLE swath_partition_state RENAME COLUMN moment TO time",
            r"swath_partition_state\.time is missing.*changed its tables",
        ),
        (
            "DELETE FROM swath_frontier",
            f"INSERT INTO swath_frontier VALUES (1, {FORMAT}, 1, 0, 0, 5, 0, 0, '', 0)",
            "own row is missing.*backup",
        ),
    ],
)
def test_tables_that_were_edited_are_told_and_let_go(path: str, edited: str, back: str, said: str) -> None:
    asyncio.run(create(path))
    edit(path, edited)
    with pytest.raises(SwathError, match=said):
        asyncio.run(create(path))
    assert not os.path.exists(f"{path}-wal"), "whoever closes the file last removes it"
    edit(path, back)
    assert passes_in_a_child(lambda: asyncio.run(create(path)))


async def test_a_run_ends_when_its_tables_are_gone(path: str) -> None:
    """Nobody waits for a store that will never answer again."""

    async def handler(item: Item) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DROP TABLE swath_claimed")

    async with swath.open(f"sqlite:///{path}") as frontier:
        await frontier.add("a")
        with pytest.raises(SwathError, match="no such table"):
            await frontier.run(handler)


async def test_a_run_ends_when_its_tables_contradict_each_other(path: str) -> None:
    await create(path)
    edit(path, "INSERT INTO swath_seen VALUES (0, zeroblob(20), 1)")
    edit(path, "INSERT INTO swath_done VALUES (1, 0, 1, 1, 3, zeroblob(20), 'b', NULL, 1, 1, NULL)")

    async def handler(item: Item) -> None:
        pass

    async with swath.open(f"sqlite:///{path}") as frontier, asyncio.timeout(20):
        await frontier.add("a")
        with pytest.raises(SwathError, match="UNIQUE constraint failed"):
            await frontier.run(handler)


MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:50 / /mnt/my\\040share rw - nfs4 server:/export rw
31 22 0:51 / /mnt rw - tmpfs tmpfs rw
32 22 0:52 / /home rw - nfs server:/home rw
33 22 0:53 / /home rw - ext4 /dev/vdb rw
"""


def test_the_file_system_of_a_path_is_that_of_its_nearest_mount() -> None:
    assert find_file_system("/var/work.db", MOUNTS) == "ext4"
    assert find_file_system("/mnt/my share/a/work.db", MOUNTS) == "nfs4"
    assert find_file_system("/mnt/my shares/work.db", MOUNTS) == "tmpfs"
    assert find_file_system("/home/me/work.db", MOUNTS) == "ext4", "mounted over"
    assert {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"} <= NETWORK_FILE_SYSTEMS


async def test_network_file_systems_are_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swath.backends.sqlite.connection.find_file_system", lambda path, mounts: "nfs4")
    with pytest.raises(InvalidStoreURL, match=r"network file system \(nfs4\)"):
        await SqliteStore.open(path)
    assert not exists(path)


# other users, full disks, busy files


def child(script: str, *arguments: str) -> str:
    """The output of a Python program of its own."""
    prelude = """
        import asyncio, os, resource, sys
        from swath.backends.sqlite import SqliteStore
        from swath.core.errors import *
        from swath.core.store import *
        from tests.unit.test_sqlite_file import new
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(prelude) + textwrap.dedent(script), *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_file_this_user_may_not_write() -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own is closed to others
        asyncio.run(create(f"{folder}/work.db"))
        os.chmod(f"{folder}/work.db", 0o444)
        os.chmod(folder, 0o555)
        script = """
            if os.getuid() == 0:
                os.setgid(65534), os.setuid(65534)
            for name in ("work.db", "fresh.db"):
                try:
                    asyncio.run(SqliteStore.open(os.path.join(sys.argv[1], name)))
                except StoreUnavailable as error:
                    print(error)
        """
        first, second = child(script, folder).splitlines()
        os.chmod(folder, 0o755)
    assert "work.db cannot be written by this user" in first
    assert "fresh.db cannot be opened" in second


def test_a_directory_this_user_may_not_enter() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        os.mkdir(f"{folder}/closed")
        asyncio.run(create(f"{folder}/closed/work.db"))
        os.chmod(f"{folder}/closed", 0o600)
        script = """
            if os.getuid() == 0:
                os.setgid(65534), os.setuid(65534)
            for create in (False, True):
                try:
                    asyncio.run(SqliteStore.open(os.path.join(sys.argv[1], "closed", "work.db"), create=create))
                except StoreUnavailable as error:
                    print(error)
        """
        messages = child(script, folder).splitlines()
        os.chmod(f"{folder}/closed", 0o700)
    assert len(messages) == 2
    assert all("work.db cannot be reached: Permission denied" in message for message in messages)


def test_a_full_disk_stops_the_move_and_nothing_is_half_done(path: str) -> None:
    script = """
        async def main(path):
            store = await SqliteStore.open(path)
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, hard))
            added, full = 0, 0
            for number in range(100):
                try:
                    added += await store.add([new(f"{number} {i}", "x" * 1_000) for i in range(50)])
                except StoreFull as error:
                    full += 1
            assert added and full, (added, full)
            status, recount = (await store.status()).partitions, await store.recount()
            assert list(status) == list(recount) and status[0].ready == added, (status, recount, added)
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            assert await store.add([new("room again")]) == 1
            await store.close()
            store = await SqliteStore.open(path)
            assert (await store.recount())[0].ready == added + 1
            await store.close()
            print(f"full {full} times")
        asyncio.run(main(sys.argv[1]))
    """
    assert "full" in child(script, path)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


PAGE_BY_PAGE = """
    import swath
    from swath.backends.sqlite.wal_limiter import WalLimiter

    WalLimiter.make_room = lambda *_: None  # the log would be moved into the database after the first refusal

    async def intact(store):
        status, recount = (await store.status()).partitions, await store.recount()
        assert list(status) == list(recount), (status, recount)

    async def until_it_fits(path, store, move):
        # With room for one more page in the log each time: how often it was refused, and what it returned at last.
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = os.path.getsize(f"{path}-wal")
        for pages in range(1_000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + pages * 4_096, hard))
            try:
                done = await move()
            except StoreFull:
                await intact(store)
                continue
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            await intact(store)
            return pages, done
"""


def test_a_claim_on_a_full_disk_takes_nothing(path: str) -> None:
    """Wherever in its commit the room ends; with enough of it, the next one takes everything."""
    script = """
        async def main(path):
            async with swath.open(f"sqlite:///{path}") as frontier:
                await frontier.add(swath.Item(f"{n}", lane=f"{n % 7}", payload="x" * 5_000) for n in range(20))
                store = frontier._store

                async def move():
                    try:
                        return await frontier.claim()
                    except StoreFull:
                        status = await frontier.status()
                        assert (status.ready, status.claimed) == (20, 0), status
                        raise

                refused, claim = await until_it_fits(path, store, move)
                assert len(claim.items) == 20 and (await frontier.status()).claimed == 20
                await claim.settle([item.done() for item in claim.items])
            async with swath.open(f"sqlite:///{path}") as frontier:
                assert (await frontier.status()).done == 20
                await intact(frontier._store)
            print(refused)
        asyncio.run(main(sys.argv[1]))
    """
    assert int(child(textwrap.dedent(PAGE_BY_PAGE) + textwrap.dedent(script), path)) > 20


def test_a_settlement_on_a_full_disk_settles_nothing(path: str) -> None:
    """Everything is still held, and the same outcomes are settled once there is room."""
    script = """
        async def main(path):
            async with swath.open(f"sqlite:///{path}") as frontier:
                await frontier.add(swath.Item(f"{n}", lane=f"{n % 7}") for n in range(20))
                claim = await frontier.claim()
                first, *others = claim.items
                outcomes = [first.done(discovered=["new"], facts={"new": 1}), others.pop().dead(reason="no use")]
                outcomes += [item.done(result="x" * 5_000) for item in others]

                async def move():
                    try:
                        return await claim.settle(outcomes)
                    except StoreFull:
                        status = await frontier.status()
                        assert (status.claimed, status.waiting, claim.remaining) == (20, 20, 20), status
                        assert (await frontier.explain("new")).state == "unknown"
                        assert await frontier.facts(["new"]) == {}
                        raise

                refused, _ = await until_it_fits(path, frontier._store, move)
                assert claim.remaining == 0
            async with swath.open(f"sqlite:///{path}") as frontier:
                status = await frontier.status()
                assert (status.done, status.dead, status.ready, status.claimed) == (19, 1, 1, 0), status
                assert await frontier.facts(["new"]) == {"new": 1}
                await intact(frontier._store)
            print(refused)
        asyncio.run(main(sys.argv[1]))
    """
    assert int(child(textwrap.dedent(PAGE_BY_PAGE) + textwrap.dedent(script), path)) > 20


async def test_a_file_that_may_not_grow_any_more_is_full(path: str) -> None:
    """What SQLite says of a full disk may end a whole group of jobs: what was confirmed is there, and nothing else."""
    store = await SqliteStore.open(path)
    connection = store._writer._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 5}")
    loads = [[new(f"{load} {n}", "x" * 1_000) for n in range(size)] for load, size in enumerate((1, 100, 2))]
    replies = await asyncio.gather(*map(store.add, loads), return_exceptions=True)
    assert isinstance(replies[1], StoreFull)
    status, recount = (await store.status()).partitions, await store.recount()
    assert list(status) == list(recount)
    assert status[0].ready == sum(reply for reply in replies if isinstance(reply, int))
    connection.execute("PRAGMA max_page_count = 1000000")
    for load in loads:
        await store.add(load)
    assert (await store.recount())[0].ready == 103
    await store.close()


async def test_a_file_locked_for_too_long_is_unavailable(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await SqliteStore.open(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr("swath.backends.sqlite.connection.BUSY_SECONDS", 0.2)
    with pytest.raises(StoreUnavailable, match="locked by another process"):
        await store.add([new("a")])
    assert (await store.status()).partitions[0].ready == 0
    holder.execute("COMMIT")
    holder.close()
    assert await store.add([new("a")]) == 1
    await store.close()


async def test_those_who_wait_for_a_locked_file_do_so_together(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await SqliteStore.open(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr("swath.backends.sqlite.connection.BUSY_SECONDS", 0.5)
    began = time.monotonic()
    adding = [asyncio.create_task(store.add([new(f"{n}")])) for n in range(20)]
    await asyncio.wait(adding)
    await store.close()
    assert time.monotonic() - began < 5, "and not for 10 s, each after the last one"
    assert all(isinstance(task.exception(), StoreUnavailable) for task in adding)
    holder.close()


async def test_a_frontier_that_cannot_be_opened_as_asked_for_is_closed(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr("swath.backends.sqlite.connection.BUSY_SECONDS", 0.1)
    before = set(threading.enumerate())
    with pytest.raises(StoreUnavailable, match="locked by another process"):
        await swath.open(f"sqlite:///{path}", min_interval=5)
    assert not [thread for thread in set(threading.enumerate()) - before if path in thread.name]
    holder.close()


# restoring


def copy(source: str, target: str) -> None:
    with closing(sqlite3.connect(source)) as there, closing(sqlite3.connect(target)) as here:
        there.backup(here)


async def test_what_a_restore_has_taken_back_can_be_added_again(path: str) -> None:
    """INV-4: also by a process that has the file open, and knows the key."""
    async with swath.open(f"sqlite:///{path}") as frontier:
        assert await frontier.add(["before"]) == 1
        copy(path, f"{path}.copy")
        assert await frontier.add(["since"]) == 1
        copy(f"{path}.copy", path)
        claim = await frontier.claim()
        assert claim is not None
        assert [item.key for item in claim.items] == ["before"]
        await claim.settle([claim.items[0].done(discovered=["since"])])
        assert (await frontier.explain("since")).state == "ready"
        assert await frontier.add(["since"]) == 0


async def test_what_a_restore_has_taken_back_can_be_discovered_again(path: str) -> None:
    """INV-4: also by the settlement that is the first to notice."""
    async with swath.open(f"sqlite:///{path}") as frontier:
        await frontier.add(["before"])
        claim = await frontier.claim()
        assert claim is not None
        copy(path, f"{path}.copy")
        await frontier.add(["since"])
        copy(f"{path}.copy", path)
        await claim.settle([claim.items[0].done(discovered=["since"])])
        assert (await frontier.explain("before")).state == "done"
        assert (await frontier.explain("since")).state == "ready"


async def test_what_a_restore_has_taken_back_can_be_discovered_in_a_transaction(path: str) -> None:
    """INV-4: nobody could add it once the caller has committed."""
    async with swath.open(f"sqlite:///{path}") as frontier:
        await frontier.add(["before"])
        claim = await frontier.claim()
        assert claim is not None
        copy(path, f"{path}.copy")
        await frontier.add(["since"])
        copy(f"{path}.copy", path)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            await claim.settle([claim.items[0].done(discovered=["since", "since"])], connection=connection)
            connection.execute("COMMIT")
        assert (await frontier.explain("before")).state == "done"
        assert (await frontier.explain("since")).state == "ready"


async def test_a_restore_is_noticed_also_where_others_have_gone_on_since(path: str) -> None:
    """Their moves take partition time to the present again."""
    async with swath.open(f"sqlite:///{path}") as frontier, swath.open(f"sqlite:///{path}") as other:
        assert await frontier.add(["before"]) == 1
        copy(path, f"{path}.copy")
        assert await frontier.add(["since"]) == 1
        copy(f"{path}.copy", path)
        claim = await other.claim()
        assert claim is not None
        await claim.settle([claim.items[0].release()])
        claim = await frontier.claim()
        assert claim is not None
        await claim.settle([claim.items[0].done(discovered=["since"])])
        assert (await frontier.explain("since")).state == "ready"


# formats


async def test_an_older_format_names_the_command_to_run(path: str) -> None:
    await create(path)
    edit(path, "UPDATE swath_frontier SET format = 0")
    with pytest.raises(SchemaOutdated, match=f"swath db migrate --store 'sqlite:///{path}'"):
        await SqliteStore.open(path)


@pytest.mark.parametrize("open_store", [SqliteStore.open, migrate, create])
async def test_a_store_of_an_unreleased_version_says_what_to_do(path: str, open_store: Callable[..., Any]) -> None:
    """Its format number is ours and its tables are not."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(UNRELEASED.read_text(encoding="utf-8"))
        connection.execute("UPDATE swath_frontier SET format = ?", (FORMAT,))
        connection.commit()
    missing = r"swath_(audit\.action|counter\.name).* is missing"
    with pytest.raises(SchemaError, match=rf"{missing}.*unreleased version.*new frontier"):
        await open_store(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT key FROM swath_item").fetchall() == [("a",)]


async def test_a_missing_index_is_named(path: str) -> None:
    await create(path)
    edit(path, "DROP INDEX swath_delayed_unsettled")
    with pytest.raises(SchemaError, match="swath_delayed_unsettled is missing"):
        await SqliteStore.open(path)


async def test_a_column_and_an_index_of_the_users_do_no_harm(path: str) -> None:
    await create(path)
    edit(path, "CREATE INDEX mine ON swath_done (settled_at)")
    edit(path, "ALTER TABLE swath_done ADD COLUMN mine TEXT")
    await create(path)


async def test_a_newer_format_is_refused(path: str) -> None:
    await create(path)
    edit(path, "UPDATE swath_frontier SET format = 99")
    with pytest.raises(SchemaTooNew, match="format 99"):
        await SqliteStore.open(path)


async def test_a_store_that_is_open_stops_when_the_format_changes_under_it(path: str) -> None:
    store = await SqliteStore.open(path)
    await store.add([new("held")])
    reply = await store.claim(ClaimRequest(1, 60_000_000, "worker", 1, [0]))
    ref = ClaimRef(reply.fence, 1)
    edit(path, "UPDATE swath_frontier SET format = 99")
    for call in (
        store.add([new("a")]),
        store.claim(ClaimRequest(1, 60_000_000, "worker", 2, [0])),
        store.renew(ref, 90_000_000),
        store.settle(ref, Settlement(0, 1, [Move(1, MoveKind.DONE)])),
        store.change_lane(0, "lane", LaneChange(paused=True)),
        store.change_settings(paused=True),
        store.learn([Fact("a", "1")]),
        store.reopen([(0, 1)]),
        store.status(),
    ):
        with pytest.raises(SchemaTooNew):
            await call
    edit(path, f"UPDATE swath_frontier SET format = {FORMAT}")
    (found,) = await store.find(new("held").hash[:16], None)
    assert (found.state, found.expires_at) == ("claimed", reply.expires_at)
    assert (await store.signal(), await store.facts(["a"])) == (reply.signal, {})
    assert await store.add([new("a")]) == 1
    await store.close()


async def test_a_newer_format_is_named_also_where_its_tables_are_others(path: str) -> None:
    """A process checks the format before it compares its cached state with tables of another format."""
    store = await SqliteStore.open(path)
    await store.add([new("a")])
    edit(path, "UPDATE swath_frontier SET format = 99")
    edit(path, "ALTER TABLE swath_partition_state RENAME COLUMN visits TO calls")
    for _ in range(2):
        with pytest.raises(SchemaTooNew, match="format 99"):
            await store.add([new("b")])
    await store.close()


async def test_migrate_applies_what_is_missing_once(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await create(path)
    assert await migrate(path) == []
    known = list_migrations()
    script = "CREATE TABLE extra (a);\nCREATE TABLE more (b);\n"
    extra = known[-1]._replace(number=FORMAT + 1, name="9999_extra", script=script)
    monkeypatch.setattr("swath.backends.sqlite.migration.list_migrations", lambda: [*known, extra])
    assert await migrate(path) == ["9999_extra"]
    assert await migrate(path) == []
    edit(path, "INSERT INTO extra VALUES (1)")


async def test_a_migration_that_fails_changes_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await create(path)
    known = list_migrations()
    script = "CREATE TABLE extra (a);\nCREATE TABLE swath_lane (b);\n"
    extra = known[-1]._replace(number=FORMAT + 1, name="9999_extra", script=script)
    monkeypatch.setattr("swath.backends.sqlite.migration.list_migrations", lambda: [*known, extra])
    with pytest.raises(SwathError, match="swath_lane already exists"):
        await migrate(path)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        edit(path, "INSERT INTO extra VALUES (1)")


async def test_a_migration_that_sqlite_rolls_back_says_why(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does when the disk is full."""
    await create(path)
    known = list_migrations()
    script = "CREATE TABLE extra (a UNIQUE);\nINSERT OR ROLLBACK INTO extra VALUES (1), (1);\n"
    extra = known[-1]._replace(number=FORMAT + 1, name="9999_extra", script=script)
    monkeypatch.setattr("swath.backends.sqlite.migration.list_migrations", lambda: [*known, extra])
    with pytest.raises(SwathError, match="UNIQUE constraint failed"):
        await migrate(path)


def test_the_migrations_add_up_to_the_schema() -> None:
    """In any order of the columns: a migration adds them at the end."""

    def tables(*scripts: str) -> list[tuple[str, list[str]]]:
        connection = sqlite3.connect(":memory:", isolation_level=None)
        for script in scripts:
            run_script(connection, script)
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()
        connection.close()
        return [(name, sorted(part.strip() for part in _split_parts(" ".join(sql.split())))) for name, sql in rows]

    migrations = list_migrations()
    assert [migration.number for migration in migrations] == list(range(1, FORMAT + 1))
    assert tables(*(migration.script for migration in migrations)) == tables(
        read("swath.backends.sqlite", "schema.sql")
    )


def _split_parts(statement: str) -> list[str]:
    """Split a CREATE statement into what is before, between and after the commas of its outer parentheses."""
    parts, depth = [""], 0
    for character in statement:
        depth += (character == "(") - (character == ")")
        if (character, depth) in {(",", 1), ("(", 1), (")", 0)}:
            parts.append("")
        else:
            parts[-1] += character
    return parts


async def test_a_frontier_of_format_1_continues_after_its_migration(path: str) -> None:
    """Its times were the wall clock's, and the first transaction continues from there."""
    now = time.time_ns() // 1_000
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        run_script(connection, list_migrations()[0].script)
        connection.execute("INSERT INTO swath_migration VALUES (?, ?)", (list_migrations()[0].name, now))
        connection.execute("INSERT INTO swath_frontier VALUES (1, 1, 1, 0, 0, 5, 0, 0)")
        connection.execute(
            "INSERT INTO swath_partition_state (partition, time, next_position, delayed, lanes) VALUES (0, ?, 3, 2, 1)",
            (now + 5_000_000,),
        )
        connection.execute("INSERT INTO swath_lane (partition, number, name) VALUES (0, 1, '')")
        for position, due_at in ((1, now + 5_000_000), (2, now + 900_000_000)):
            item = (position, new(f"key {position}").hash, f"key {position}", due_at)
            connection.execute(
                "INSERT INTO swath_delayed (partition, position, lane, priority, hash, key, span, attempts, due_at,"
                " revisit) VALUES (0, ?, 1, 3, ?, ?, 1, 0, ?, 0)",
                item,
            )
            connection.execute("INSERT INTO swath_seen VALUES (0, ?, ?)", (item[1], position))
    with pytest.raises(SchemaOutdated, match=f"swath db migrate --store 'sqlite:///{path}'"):
        await SqliteStore.open(path)
    assert await migrate(path) == ["0002_boot_time", "0003_history"]
    store = await SqliteStore.open(path)
    reply = await store.claim(ClaimRequest(10, 3_600_000_000, "worker", 1, [0]))
    assert [item.key for item in reply.items] == ["key 1"], "the store's time does not go back"
    assert reply.next_ready_at is not None
    assert reply.next_ready_at - reply.now > 800_000_000
    assert [part.delayed for part in await store.recount()] == [1]
    await store.close()


# statements by name


def test_statements_are_cut_by_name() -> None:
    statements = parse("-- head\n\n-- name: a\n-- why\nSELECT 1;\n\n-- name: b\nSELECT\n  2 -- two\n", source="x.sql")
    assert dict(statements) == {"a": "SELECT 1", "b": "SELECT\n  2 -- two"}
    with pytest.raises(KeyError, match=r"x\.sql has no statement named 'c'"):
        statements["c"]


@pytest.mark.parametrize("text", ["SELECT 1", "-- name: a\n", "-- name: a\nSELECT 1\n-- name: a\nSELECT 2"])
def test_statements_that_cannot_be_told_apart_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"x\.sql"):
        parse(text, source="x.sql")
