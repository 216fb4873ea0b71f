"""The runner and its output: a file holds exactly what was settled, whatever a settlement meets (INV-5)."""

import asyncio
import errno
import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from swath.core import events
from swath.core.errors import InvalidItem, LeaseLost, OutputFull
from swath.core.item import Item, Outcome
from swath.core.store import OutputMove, Settlement
from swath.runner import store_retry
from swath.runner.monitor import RunMonitor
from swath.runner.shutdown import Stop
from tests.bench import Bench, bench
from tests.recorder import PATIENCE


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_retry, "FIRST_PAUSE", 0.01)


class Lines:
    """An output of one file, a line for each entry."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "lines"
        self.path.touch()
        self.kept = self.end = 0
        self.restored = 0

    def size(self, entry: str) -> int:
        return len(entry)

    def write(self, settlements: Sequence[Sequence[str]]) -> Sequence[Sequence[OutputMove]]:
        moves = []
        with self.path.open("ab") as file:
            for entries in settlements:
                old = self.end
                self.end += file.write("".join(f"{entry}\n" for entry in entries).encode())
                moves.append([OutputMove("lines", old, self.end)] if entries else [])
        return moves

    def keep(self) -> None:
        self.kept = self.end

    def restore(self, committed: Mapping[str, int]) -> None:
        self.restored += 1
        self.kept = self.end = committed.get("lines", 0)
        os.truncate(self.path, self.end)

    @property
    def lines(self) -> list[str]:
        return self.path.read_text().splitlines()


async def write_key(item: Item) -> Outcome:
    await asyncio.sleep(0)
    match item.key[0]:
        case "d":
            return item.dead(reason="no use", output=item.key)
        case "n":
            return item.done()
        case _:
            return item.done(output=item.key)


async def holds_what_is_settled(b: Bench, output: Lines) -> None:
    """Each line once, for each item that is settled, and nothing beyond the committed length."""
    assert await b.store.outputs() == {"lines": output.path.stat().st_size}
    lines = Counter(output.lines)
    assert set(lines.values()) == {1}
    for key in lines:
        assert await b.state(key) in {"done", "dead"}


async def test_output_grows_with_settlements(tmp_path: Path) -> None:
    output = Lines(tmp_path)
    keys = [f"{kind}{n}" for n in range(200) for kind in "adn"]
    async with bench(partitions=4) as b:
        await b.frontier.add(Item(key, lane=key[-1]) for key in keys)
        summary = await b.frontier.run(write_key, workers=20, output=output)
        assert (summary.done, summary.died) == (400, 200)
        assert sorted(output.lines) == sorted(key for key in keys if key[0] != "n")
        assert (output.kept, output.restored) == (output.end, 0)
        await holds_what_is_settled(b, output)


async def test_output_of_a_lost_lease_is_cut_off(tmp_path: Path) -> None:
    """The entries after it in the file are written again, at the new offset."""
    output = Lines(tmp_path)
    refused: list[int] = []
    async with bench(partitions=4) as b:
        settle = b.store.settle

        async def some_lose(claim: object, settlement: Settlement, **options: object) -> object:
            if settlement.outputs and len(refused) < 5 and settlement.number % 2 == 1:
                refused.append(settlement.outputs[0].new - settlement.outputs[0].old)
                b.store._claims[claim.fence].expires_at = 0  # type: ignore[attr-defined]
                raise LeaseLost("the test took it")
            return await settle(claim, settlement, **options)  # type: ignore[arg-type]

        b.store.settle = some_lose  # type: ignore[assignment]
        await b.frontier.add(Item(f"a{n}", lane=f"{n}") for n in range(400))
        summary = await b.frontier.run(write_key, workers=50, output=output)
        assert len(refused) == 5
        assert summary.lost > 0
        assert output.restored == 5
        assert sorted(output.lines) == sorted(f"a{n}" for n in range(400))
        await holds_what_is_settled(b, output)


async def test_output_of_a_settlement_whose_reply_was_lost_stays(tmp_path: Path) -> None:
    output = Lines(tmp_path)
    async with bench() as b:
        b.faults.losing["settle"] = 2
        await b.frontier.add(f"a{n}" for n in range(300))
        await b.frontier.run(write_key, workers=50, output=output)
        assert len(output.lines) == 300
        await holds_what_is_settled(b, output)


async def test_output_of_an_outcome_that_the_store_refuses(tmp_path: Path) -> None:
    """It alone is retried; what was written for it is cut off."""
    output = Lines(tmp_path)
    async with bench() as b:
        settle, refusals = b.store.settle, 0

        async def refuses_one(claim: object, settlement: Settlement, **options: object) -> object:
            nonlocal refusals
            if refusals < 2 and any(move.position == 7 for move in settlement.moves):
                refusals += 1
                raise InvalidItem("the test does not like it")
            return await settle(claim, settlement, **options)  # type: ignore[arg-type]

        b.store.settle = refuses_one  # type: ignore[assignment]
        await b.frontier.add(f"a{n}" for n in range(1, 31))
        summary = await b.frontier.run(write_key, workers=30, until="idle", output=output)
        assert (summary.done, summary.retried) == (29, 1)
        assert sorted(output.lines) == sorted(f"a{n}" for n in range(1, 31) if n != 7)
        await holds_what_is_settled(b, output)


async def test_an_entry_that_the_output_cannot_take_is_a_retry(tmp_path: Path) -> None:
    async def handler(item: Item) -> Outcome:
        return item.done(output=5 if item.key == "bad" else item.key)

    output = Lines(tmp_path)
    async with bench() as b:
        await b.frontier.add(["good", "bad"])
        async with asyncio.timeout(PATIENCE):
            summary = await b.frontier.run(handler, until="idle", output=output)
        assert (summary.done, summary.retried, output.lines) == (1, 1, ["good"])
        reason = "TypeError: object of type 'int' has no len()"
        assert (await b.data("bad"))["reason"] == reason
        assert [(failed.key, failed.reason) for failed in b.seen.of(events.HandlerFailed)] == [("bad", reason)]
        await holds_what_is_settled(b, output)


async def test_an_output_that_cannot_be_written_ends_the_run_and_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it got of a settlement must not be committed with the next one. Nobody waits for what was in hand."""
    output = Lines(tmp_path)
    full, gate = OSError(errno.ENOSPC, "No space left on device"), threading.Event()
    writes = 0

    def write(settlements: Sequence[Sequence[str]]) -> Sequence[Sequence[OutputMove]]:
        nonlocal writes
        writes += 1
        if writes == 1:
            gate.wait(PATIENCE)
            with output.path.open("ab") as file:
                output.end += file.write(b"half of")
            raise full
        return Lines.write(output, settlements)

    monkeypatch.setattr(output, "write", write)
    async with bench() as b:
        await b.frontier.add(["a1", "a2", "n3", "a4"])

        async def handler(item: Item) -> Outcome:
            if item.key == "a4":
                gate.set()
                await asyncio.Event().wait()
            return await write_key(item)

        async with asyncio.timeout(PATIENCE):
            with pytest.raises(OSError, match="No space left") as caught:
                await b.frontier.run(handler, workers=1, output=output)
        assert caught.value is full
        assert writes == 1
        assert await b.store.outputs() == {}
        assert [await b.state(key) for key in ("a1", "a2", "n3", "a4")] == ["ready", "ready", "done", "ready"]
        assert (await b.data("a1"))["attempts"] == 0


class FullDisk(Lines):
    """An output whose disk is full until `room` is set."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.room = threading.Event()
        self.refusals = threading.Semaphore(0)

    def write(self, settlements: Sequence[Sequence[str]]) -> Sequence[Sequence[OutputMove]]:
        if not self.room.is_set():
            self.refusals.release()
            raise OutputFull("no room")
        return super().write(settlements)


async def test_a_run_waits_until_the_disk_of_its_output_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is claimed before that, and nothing is done twice."""
    output, monitor, started = FullDisk(tmp_path), RunMonitor(), 0
    attempts: list[int] = []

    def choose_pause(attempt: int) -> float:
        attempts.append(attempt)
        return 0.01

    monkeypatch.setattr(store_retry, "choose_pause", choose_pause)

    async def handler(item: Item) -> Outcome:
        nonlocal started
        started += 1
        return await write_key(item)

    async with bench() as b:
        await b.frontier.add(f"a{number}" for number in range(2_000))
        run = asyncio.create_task(b.frontier.run(handler, workers=3, until="idle", output=output, monitor=monitor))
        async with asyncio.timeout(PATIENCE):
            counts = []
            for _ in range(7):
                assert await asyncio.to_thread(output.refusals.acquire, timeout=PATIENCE)
                counts.append(started)
            assert len(set(counts[3:])) == 1, "nothing has started since"
            assert [(state.name, state.detail) for state in monitor.states] == [("disk full", "no room")]
            output.room.set()
            summary = await run
        assert (summary.done, started, len(output.lines), len(set(output.lines))) == (2_000, 2_000, 2_000, 2_000)
        assert await b.store.outputs() == {"lines": output.path.stat().st_size}
        assert monitor.states == ()
        assert attempts == list(range(1, len(attempts) + 1)), "the pauses grow"
        (waiting,), (reached,) = b.seen.of(events.Waiting), b.seen.of(events.Reached)
        assert (waiting.reason, reached.seconds > 0) == ("no room", True)


async def test_a_run_that_stops_does_not_wait_for_room(tmp_path: Path) -> None:
    output, stop = FullDisk(tmp_path), Stop()
    async with bench() as b:
        await b.frontier.add(["a1", "n2"])
        run = asyncio.create_task(b.frontier.run(write_key, workers=1, output=output, stop=stop))
        async with asyncio.timeout(PATIENCE):
            assert await asyncio.to_thread(output.refusals.acquire, timeout=PATIENCE)
            stop.request("enough")
            summary = await run
        assert (summary.released, summary.lost, output.lines) == (1, 0, [])
        assert await b.state("a1") == "ready"
        assert (await b.data("a1"))["attempts"] == 0


async def test_nothing_is_started_while_too_much_output_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """INV-9."""
    monkeypatch.setattr("swath.runner.dispatcher.MAX_PENDING_BYTES", 30)
    output = Lines(tmp_path)
    writing, gate = asyncio.Event(), threading.Event()
    loop, started = asyncio.get_running_loop(), 0

    def write(settlements: Sequence[Sequence[str]]) -> Sequence[Sequence[OutputMove]]:
        loop.call_soon_threadsafe(writing.set)
        gate.wait(PATIENCE)
        return Lines.write(output, settlements)

    async def handler(item: Item) -> Outcome:
        nonlocal started
        started += 1
        return item.done(output="0123456789")

    monkeypatch.setattr(output, "write", write)
    async with bench() as b:
        await b.frontier.add(f"a{n}" for n in range(100))
        run = asyncio.create_task(b.frontier.run(handler, workers=1, output=output))
        await writing.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert started <= 4
        gate.set()
        assert (await run).done == 100
    assert len(output.lines) == 100
