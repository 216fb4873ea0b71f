"""Rule 11: processes on one SQLite file get fair turns, also when one of them dies or stops in the queue."""

import asyncio
import itertools
import multiprocessing
import os
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from swath.backends.sqlite import SqliteStore
from swath.backends.sqlite.write_queue import WriteQueue
from swath.core.store import EncodedItem
from tests.crash.children import stop

SPAWN = multiprocessing.get_context("spawn")
PROCESSES = 8
SECONDS = 4.0
PATIENCE = 60.0


@contextmanager
def children(targets: list[Callable[..., None]], *arguments: object) -> Iterator[list[BaseProcess]]:
    processes: list[BaseProcess] = [
        SPAWN.Process(target=target, args=(number, *arguments), daemon=True) for number, target in enumerate(targets)
    ]
    for process in processes:
        process.start()
    try:
        yield processes
    finally:
        for process in processes:
            if process.is_alive() and process.pid:
                os.kill(process.pid, signal.SIGKILL)
            process.join(PATIENCE)


# whole stores


def write_for_a_while(number: int, path: str, go: Event, ready: "Queue[int]", counts: "Queue[tuple[int, int]]") -> None:
    """In a child: small moves without a pause, until there is a file that says enough. What counts is how many turns
    they get: how much is done in one depends on how much of the machine there is."""
    enough = _enough(path)

    async def main() -> int:
        store = await SqliteStore.open(path)
        turns = 0
        acquire = store._writer._queue.acquire

        def count() -> None:
            nonlocal turns
            turns += 1
            acquire()

        store._writer._queue.acquire = count  # type: ignore[method-assign]
        ready.put(number)
        go.wait(PATIENCE)

        async def write(task: int) -> None:
            for n in itertools.count():
                if enough.exists():
                    return
                key = f"{number} {task} {n}"
                key_hash = key.encode().rjust(20, b"\0")
                await store.add([EncodedItem(0, key_hash, f"lane {number}", 3, key, None, None, 1)])

        await asyncio.gather(*(write(task) for task in range(4)))
        await store.close()
        return turns

    counts.put((number, asyncio.run(main())))


def _enough(path: str) -> Path:
    return Path(path).with_name("enough")


@pytest.mark.parametrize("kill", [False, True])
def test_eight_processes_get_their_share(tmp_path: Path, kill: bool) -> None:
    path = str(tmp_path / "work.db")
    go, ready, counts = SPAWN.Event(), SPAWN.Queue(), SPAWN.Queue()
    with children([write_for_a_while] * PROCESSES, path, go, ready, counts) as processes:
        for _ in processes:
            ready.get(timeout=PATIENCE)
        go.set()
        time.sleep(SECONDS / 4)
        if kill:
            assert processes[3].pid is not None
            os.kill(processes[3].pid, signal.SIGKILL)
        time.sleep(SECONDS * 3 / 4)
        _enough(path).touch()
        got = dict(counts.get(timeout=PATIENCE) for _ in range(PROCESSES - kill))
        for process in processes:
            process.join(PATIENCE)
    print(f"turns: {got}")
    assert min(got.values()) > 4
    assert max(got.values()) - min(got.values()) <= 4, got

    async def check() -> None:
        store = await SqliteStore.open(path)
        status, recount = (await store.status()).partitions, await store.recount()
        assert list(status) == list(recount)
        assert status[0].ready >= sum(got.values())
        await store.close()

    asyncio.run(check())


@pytest.mark.parametrize(("turn_seconds", "tickets"), [(0.0, 20), (PATIENCE, 2)])
def test_a_turn_lasts_while_jobs_follow_one_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn_seconds: float, tickets: int
) -> None:
    """A change of processes is dear: it takes the ticket of the first job, that of the first to follow, and no more."""
    monkeypatch.setattr("swath.backends.sqlite.writer.FOLLOW_SECONDS", (PATIENCE, PATIENCE))
    monkeypatch.setattr("swath.backends.sqlite.writer.ROUND_SECONDS", turn_seconds)
    monkeypatch.setattr("swath.backends.sqlite.writer.TURN_SECONDS", turn_seconds)
    path = str(tmp_path / "work.db")

    async def main() -> None:
        store = await SqliteStore.open(path)
        for n in range(20):
            await store.add([EncodedItem(0, b"%20d" % n, "lane", 3, str(n), None, None, 1)])
        assert _next_ticket(f"{path}-turn") == 1 + tickets
        await store.close()

    asyncio.run(main())


def test_a_turn_is_the_shorter_the_more_wait_for_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others, round_seconds = 19, 20.0
    monkeypatch.setattr("swath.backends.sqlite.writer.FOLLOW_SECONDS", (PATIENCE, PATIENCE))
    monkeypatch.setattr("swath.backends.sqlite.writer.ROUND_SECONDS", round_seconds)
    path = str(tmp_path / "work.db")

    def queue(turn: WriteQueue) -> None:
        turn.acquire()
        turn.close()

    async def main() -> None:
        store = await SqliteStore.open(path)
        turns = [WriteQueue(f"{path}-turn", patience=PATIENCE) for _ in range(others)]
        for n in range(2):
            await store.add([EncodedItem(0, b"%20d" % n, "lane", 3, str(n), None, None, 1)])
        own, began = store._writer._queue, time.monotonic()
        assert own.waiting == 0
        threads = [threading.Thread(target=queue, args=(turn,)) for turn in turns]
        for thread in threads:
            thread.start()
        await asyncio.to_thread(_until, lambda: own.waiting == others)
        while own.is_held:
            n += 1
            await store.add([EncodedItem(0, b"%20d" % n, "lane", 3, str(n), None, None, 1)])
        assert time.monotonic() < began + round_seconds / 2
        for thread in threads:
            await asyncio.to_thread(thread.join, PATIENCE)
        await store.close()

    asyncio.run(main())


def test_a_turn_that_nothing_follows_is_given_up(tmp_path: Path) -> None:
    path = str(tmp_path / "work.db")

    async def main() -> None:
        store = await SqliteStore.open(path)
        other = WriteQueue(f"{path}-turn", patience=PATIENCE)
        for n in range(20):
            await store.add([EncodedItem(0, b"%20d" % n, "lane", 3, str(n), None, None, 1)])
        start = time.monotonic()
        await asyncio.to_thread(other.acquire)
        assert time.monotonic() - start < PATIENCE / 2
        other.close()
        await store.close()

    asyncio.run(main())


# the queue alone


def test_turns_come_in_the_order_of_asking(tmp_path: Path) -> None:
    path = str(tmp_path / "turn")
    order: list[int] = []
    first = WriteQueue(path)
    first.acquire()
    threads = []
    for number in range(5):

        def wait_for_turn(number: int = number) -> None:
            turn = WriteQueue(path, patience=PATIENCE)
            turn.acquire()
            order.append(number)
            turn.release()
            turn.close()

        threads.append(threading.Thread(target=wait_for_turn))
        threads[-1].start()
        _until(partial(_ticket_is, path, number + 3))
    assert order == []
    first.release()
    for thread in threads:
        thread.join(PATIENCE)
    first.close()
    assert order == [0, 1, 2, 3, 4]


def test_the_holder_of_the_turn_counts_those_behind_it(tmp_path: Path) -> None:
    queues = [WriteQueue(str(tmp_path / "turn")) for _ in range(4)]
    passed, holder, *behind = queues
    passed.acquire()
    passed.release()  # so that the holder's ticket is not the first
    holder.acquire()
    counts = [holder.waiting]
    for queue in behind:
        assert queue._file is not None
        queue._draw(queue._file)
        counts.append(holder.waiting)
    assert counts == [0, 1, 2]
    for queue in queues:
        queue.close()


def queue_up(number: int, path: str, taken: Event) -> None:
    """In a child: wait for a turn, and keep it."""
    turn = WriteQueue(path, patience=PATIENCE)
    turn.acquire()
    taken.set()
    time.sleep(PATIENCE)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_ends_in_the_queue_holds_nobody_up(tmp_path: Path, end: signal.Signals) -> None:
    path = str(tmp_path / "turn")
    holder, behind, taken = WriteQueue(path), WriteQueue(path, patience=0.5), SPAWN.Event()
    holder.acquire()
    with children([queue_up], path, taken) as (process,):
        _until(lambda: _next_ticket(path) == 3)
        assert process.pid is not None
        os.kill(process.pid, end)
        if end == signal.SIGKILL:
            process.join(PATIENCE)
        holder.release()
        start = time.monotonic()
        behind.acquire()
        waited = time.monotonic() - start
        assert waited < 10
        assert (waited > 0.4) == (end == signal.SIGSTOP), (
            "a dead process is passed at once, a stopped one after a while"
        )
        behind.release()
        holder.acquire()  # and whoever comes later is not held up again
        holder.release()
        assert time.monotonic() - start < waited + 0.4
        assert not taken.is_set()
    holder.close()
    behind.close()


@pytest.mark.parametrize("content", [b"\xff" * 16, (2**63 - 33).to_bytes(8, "little") * 2, b"short"])
def test_other_content_than_numbers_harms_nobody(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "turn"
    path.write_bytes(content)
    turn = WriteQueue(str(path))
    turn.acquire()
    turn.release()
    turn.close()


def test_a_link_in_the_place_of_the_queue_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious" * 4)
    (tmp_path / "work.db-turn").symlink_to(victim)
    turn = WriteQueue(str(tmp_path / "work.db-turn"))
    turn.acquire()
    turn.release()
    turn.close()
    assert victim.read_bytes() == b"precious" * 4


def test_who_may_write_to_the_database_may_queue_for_it(tmp_path: Path) -> None:
    database = tmp_path / "work.db"
    database.touch()
    database.chmod(0o666)
    WriteQueue(f"{database}-turn").close()
    assert (tmp_path / "work.db-turn").stat().st_mode & 0o777 == 0o666


def hold_the_gate(number: int, path: str, held: Event) -> None:
    """In a child: pass the gate to draw a ticket, and get no further."""
    turn = WriteQueue(path)
    assert turn._file is not None
    assert turn._pass_gate(turn._file)
    held.set()
    time.sleep(PATIENCE)


def test_a_process_that_stops_in_the_gate_holds_nobody_up(tmp_path: Path) -> None:
    """Found by `test_stop`: its successor waited in the kernel for ever, as every other writer would have."""
    path = str(tmp_path / "turn")
    other, third, held = WriteQueue(path, patience=0.5), WriteQueue(path, patience=PATIENCE), SPAWN.Event()
    with children([hold_the_gate], path, held) as (process,):
        assert held.wait(PATIENCE)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        start = time.monotonic()
        other.acquire()
        waited = time.monotonic() - start
        assert 0.4 < waited < 10
        other.release()
        for _ in range(100):  # known to be stuck, it is not waited for again
            other.acquire()
            other.release()
        assert time.monotonic() - start < waited + 0.4
    third.acquire()  # a process that is gone has left the gate
    other.acquire()  # and those that went without a ticket queue again
    assert _next_ticket(path) == 3
    third.release()
    for turn in (other, third):
        turn.close()


def test_a_process_that_dies_with_the_turn_leaves_it(tmp_path: Path) -> None:
    path = str(tmp_path / "turn")
    taken = SPAWN.Event()
    behind = WriteQueue(path, patience=PATIENCE)
    with children([queue_up], path, taken) as (process,):
        assert taken.wait(PATIENCE)
        threading.Timer(0.3, process.kill).start()
        start = time.monotonic()
        behind.acquire()
        assert 0.2 < time.monotonic() - start < 10
    behind.close()


def test_without_such_locks_nobody_queues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swath.backends.sqlite.write_queue._SET", None)
    first, second = WriteQueue(str(tmp_path / "turn")), WriteQueue(str(tmp_path / "turn"))
    first.acquire()
    second.acquire()
    for turn in (first, second):
        turn.release()
        turn.close()


def test_a_stopped_process_does_not_stop_the_store(tmp_path: Path) -> None:
    """Stopped while it writes or queues without end, a process is passed by the others as long as SQLite lets them."""
    path = str(tmp_path / "work.db")
    go, ready, counts = SPAWN.Event(), SPAWN.Queue(), SPAWN.Queue()
    with children([write_for_a_while] * 3, path, go, ready, counts) as processes:
        for _ in processes:
            ready.get(timeout=PATIENCE)
        go.set()
        time.sleep(0.5)
        stopped = processes[0].pid
        assert stopped is not None
        stop(stopped)
        while _is_locked(path):  # it was stopped inside a transaction: that is SQLite's to keep
            os.kill(stopped, signal.SIGCONT)
            time.sleep(0.01)
            stop(stopped)
        before = now = _added(path)
        deadline = time.monotonic() + PATIENCE
        while not all(now[lane] > before[lane] for lane in ("lane 1", "lane 2")):
            assert time.monotonic() < deadline, (before, now)
            time.sleep(0.05)
            now = _added(path)
        _enough(path).touch()
        os.kill(stopped, signal.SIGCONT)
        for _ in processes:
            counts.get(timeout=PATIENCE)


def _added(path: str) -> Counter[str]:
    """How many items each of them has added."""
    count = "SELECT name, count(*) FROM swath_item JOIN swath_lane ON lane = number GROUP BY name"
    with closing(sqlite3.connect(path)) as connection:
        return Counter(dict(connection.execute(count)))


def _is_locked(path: str) -> bool:
    connection = sqlite3.connect(path, timeout=1, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return True
    finally:
        connection.close()
    return False


def _ticket_is(path: str, expected: int) -> bool:
    return _next_ticket(path) == expected


def _next_ticket(path: str) -> int:
    return int.from_bytes(Path(path).read_bytes()[:8], "little")


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
