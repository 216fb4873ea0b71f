"""One process of a crash test: `python -m tests.crash.worker '{"url": …}'`.

It logs what it is given and what it settles, and does as its mode says:

- run: `frontier.run` with a handler
- loop: claims and settles by hand
- hold: claims once, and settles when told to on standard input
- drop: drops the items of some lanes

It ends when its standard input does, so that nothing outlives a test that was killed.
"""

import asyncio
import json
import os
import random
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, cast

import swath
from swath import Claim, Item, LeaseLost, StoreUnavailable
from swath.core.clock import lease_clock
from swath.core.item import Outcome
from swath.core.store import ClaimRef, ClaimReply, ClaimRequest, Settlement, SettleReply, Store
from swath.frontier import Frontier
from tests.crash.journal import Journal, Place
from tests.crash.workload import Workload

PATIENCE = 1_000.0  # seconds without the store, or without an end, after which a worker gives up
PAUSE = 0.05  # seconds between looks where nothing is ready
ORPHANED = 70  # the exit code of a worker whose test is gone


class Recorded:
    """A store that logs each hand-out before anybody hears of it, and each settlement once it is confirmed."""

    def __init__(self, store: Store, journal: Journal, *, die_at: tuple[str, int] | None) -> None:
        self._store = store
        self._journal = journal
        self._die_at = die_at
        self._counts: dict[str, int] = {}
        self._fences: dict[Place, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def fence_of(self, item: Item) -> int:
        return self._fences[item.partition, item.position]

    async def claim(self, request: ClaimRequest) -> ClaimReply:
        began = lease_clock()
        reply = await self._store.claim(request)
        if reply.items:
            self._reached("claimed")
            self._fences.update({(item.partition, item.position): reply.fence for item in reply.items})
            self._journal.write(
                "claim",
                fence=reply.fence,
                now=reply.now,
                until=reply.expires_at,
                took=int((lease_clock() - began) * 1e6),
                items=[(item.partition, item.position, item.key, item.lane, item.attempts) for item in reply.items],
            )
        if reply.recovered:
            self._journal.write("recovered", items=reply.recovered, died=reply.died)
        return reply

    async def renew(self, claim: ClaimRef, lease: int) -> int:
        try:
            until = await self._store.renew(claim, lease)
        except LeaseLost:
            self._journal.write("lost", fence=claim.fence, by="renew")
            raise
        self._journal.write("renew", fence=claim.fence, until=until)
        return until

    async def settle(self, claim: ClaimRef, settlement: Settlement, *, connection: Any = None) -> SettleReply:
        moves = [(move.position, move.kind, move.started) for move in settlement.moves]
        said = {"fence": claim.fence, "partition": settlement.partition, "number": settlement.number, "moves": moves}
        self._journal.write("settling", **said)
        self._reached("settling")
        try:
            reply = await self._store.settle(claim, settlement, connection=connection)
        except LeaseLost:
            self._journal.write("lost", fence=claim.fence, by="settle")
            raise
        self._reached("settled")
        self._journal.write("settle", **said, now=reply.now)
        return reply

    async def drop(self, places: Sequence[Place], result: str | None) -> int:
        self._journal.write("dropping", places=len(places))
        self._reached("dropping")
        count = await self._store.drop(places, result)
        self._reached("dropped")
        self._journal.write("dropped", count=count)
        return count

    def _reached(self, point: str) -> None:
        """A point at which this process may have been told to die."""
        self._counts[point] = self._counts.get(point, 0) + 1
        if self._die_at == (point, self._counts[point]):
            os.kill(os.getpid(), signal.SIGKILL)


class Worker:
    def __init__(self, options: dict[str, Any], frontier: Frontier, store: Recorded, journal: Journal) -> None:
        self._name: str = options["name"]
        self._lease: float = options["lease"]
        self._workers: int = options.get("workers", 20)
        self._limit: int = options.get("limit", 60)
        self._poison: Sequence[str] = options.get("poison", ())
        self._stuck: Sequence[str] = options.get("stuck", ())
        self._linger: float = options.get("linger", 0.0)
        self._lanes: Sequence[str] = options.get("lanes", ())
        self._workload = Workload(**options["workload"])
        self._random = random.Random(options["seed"])
        self._frontier = frontier
        self._store = store
        self._journal = journal
        self._told = asyncio.Event()

    def tell(self) -> None:
        self._told.set()

    # run

    async def run(self) -> None:
        summary = await self._frontier.run(self._handle, workers=self._workers, lease=self._lease)
        self._journal.write("summary", **asdict(summary))

    async def _handle(self, item: Item) -> Outcome:
        fence = self._start(item)
        if item.key in self._stuck:
            await self._told.wait()
        await asyncio.sleep(self._linger or (0.005 if self._random.random() < 0.1 else 0))
        return self._end(item, fence)

    def _start(self, item: Item) -> int:
        fence = self._store.fence_of(item)
        place = item.partition, item.position
        self._journal.write("start", fence=fence, place=place, lane=item.lane, at=lease_clock())
        if item.key in self._poison:
            _end_this_process(item.key)
        return fence

    def _end(self, item: Item, fence: int) -> Outcome:
        outcome = self._workload.outcome(item, self._random, fence=fence, worker=self._name)
        self._journal.write("end", fence=fence, place=(item.partition, item.position), at=lease_clock())
        return outcome

    # loop

    async def loop(self) -> None:
        deadline = lease_clock() + PATIENCE
        while lease_clock() < deadline:
            try:
                claim = await self._frontier.claim(self._random.randint(1, self._limit), lease=self._lease)
                if claim is None:
                    if await self._finished():
                        return
                    await self._frontier._store.wait(PAUSE)
                    continue
            except StoreUnavailable:
                await asyncio.sleep(PAUSE)
                continue
            await self._work_off(claim)
        raise TimeoutError(f"the frontier was not finished after {PATIENCE} s")

    async def _finished(self) -> bool:
        status = await self._frontier._store.status()
        return not any(part.ready + part.delayed + part.claimed + part.inbox for part in status.partitions)

    async def _work_off(self, claim: Claim) -> None:
        outcomes = [self._end(item, self._start(item)) for item in claim.items]
        await asyncio.sleep(self._linger)
        self._random.shuffle(outcomes)
        size = self._random.randint(1, len(outcomes))
        try:
            if self._random.random() < 0.1:
                await self._persist(claim.renew)
            for start in range(0, len(outcomes), size):
                await self._settle(claim, outcomes[start : start + size])
        except LeaseLost:
            return

    async def _settle(self, claim: Claim, outcomes: Sequence[Outcome]) -> None:
        await self._persist(lambda: claim.settle(outcomes))

    async def _persist(self, call: Callable[[], Awaitable[None]]) -> None:
        deadline = lease_clock() + PATIENCE
        while lease_clock() < deadline:
            try:
                await call()
                return
            except StoreUnavailable:
                await asyncio.sleep(PAUSE)
        raise TimeoutError(f"the store was away for {PATIENCE} s")

    # hold

    async def hold(self) -> None:
        claim = await self._frontier.claim(self._limit, lease=self._lease)
        assert claim is not None
        outcomes = [self._end(item, self._start(item)) for item in claim.items]
        await self._told.wait()
        with suppress(LeaseLost):
            await claim.settle(outcomes)
        with suppress(LeaseLost):
            await claim.renew()
        with suppress(LeaseLost):
            await claim.settle(outcomes[:1])

    # drop

    async def drop(self) -> None:
        for lane in self._lanes:
            await self._frontier.drop(lane=lane, reason=self._name)


def _end_this_process(key: str) -> None:
    if "exit" in key:
        os._exit(1)
    os.kill(os.getpid(), signal.SIGKILL)


async def _open(url: str) -> Frontier:
    deadline = lease_clock() + PATIENCE
    while True:
        try:
            return await swath.open(url, create=False)
        except StoreUnavailable:
            if lease_clock() > deadline:
                raise
        await asyncio.sleep(PAUSE)


async def _main(options: dict[str, Any]) -> None:
    journal = Journal(options["journal"])
    frontier = await _open(options["url"])
    point = options.get("die_at")
    store = Recorded(frontier._store, journal, die_at=None if point is None else (point[0], point[1]))
    frontier._store = frontier._session.store = cast(Store, store)
    async with frontier:
        worker = Worker(options, frontier, store, journal)
        _listen(asyncio.get_running_loop(), worker.tell)
        await getattr(worker, options["mode"])()


def _listen(loop: asyncio.AbstractEventLoop, tell: Callable[[], None]) -> None:
    def listen() -> None:
        while os.read(0, 1):
            loop.call_soon_threadsafe(tell)
        os._exit(ORPHANED)

    threading.Thread(target=listen, daemon=True).start()


if __name__ == "__main__":
    asyncio.run(_main(json.loads(sys.argv[1])))
