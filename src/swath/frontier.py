"""Frontier: checks what comes in, calls the Store once per move, and tells the observer what happened."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from swath.claim import Claim
from swath.core import codec, events
from swath.core.check import CheckReport, check_store
from swath.core.claimer import Claimer
from swath.core.clock import from_datetime, is_moment
from swath.core.errors import InvalidSetting, StoreUnavailable, UsageError
from swath.core.item import Item
from swath.core.lane import address, key_hash
from swath.core.session import Session
from swath.core.status import Explanation, Status, explain, explain_unknown, summarize_status
from swath.core.store import (
    ADD_CHUNK,
    DEFAULT,
    ClaimReply,
    DeadRow,
    EncodedItem,
    Found,
    LaneChange,
    LaneRow,
    PendingRow,
    Store,
)
from swath.runner.execution import Handler, Transaction
from swath.runner.output import Output
from swath.runner.run import Summary, Until, run
from swath.runner.shutdown import Stop

ADD_BUFFER = 10_000  # items of a long addition held in memory
ADD_BYTES = 16_000_000  # of their payloads
LOOK_AGAIN = (0.001, 0.05)  # seconds between looks for work that is ready and in other hands for a moment: least, most
BUSY_SECONDS = 30.0  # for which a claim looks again
FRONTIER_DEFAULT = "default"  # for `limit()`: what the frontier says

ItemIn = Item | EncodedItem | str  # an item, one that was encoded before, or a key
ItemsIn = ItemIn | Iterable[ItemIn] | AsyncIterable[ItemIn]


class Frontier:
    """Known but uncovered work. Made by `swath.open`."""

    def __init__(self, store: Store, *, observer: events.Observer | None = None, worker: str | None = None) -> None:
        self._session = Session(store, observer=observer, worker=worker)
        self._claimer = Claimer(self._session)

    @property
    def worker(self) -> str:
        """The name under which this process claims items."""
        return self._session.worker

    @property
    def _store(self) -> Store:
        return self._session.store

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the store. Claims that are not settled stay leased until their lease ends."""
        await self._store.close()

    # the moves

    async def add(self, items: ItemsIn) -> int:
        """Add items, given as one, as an iterable or as an async iterable of any length; return how many were new.

        What was returned for is durable (INV-4). Memory stays bounded however many there are (INV-9). Where the
        connection broke while some were added, they are sent again, and not counted if they were in already.
        """
        added = 0
        partitions = self._store.settings.partitions
        buffer: list[EncodedItem] = []
        size = 0
        try:
            async for item in _each(items):
                new = codec.new_item(item, partitions)
                buffer.append(new)
                size += len(new.payload or "")
                if len(buffer) == ADD_BUFFER or size >= ADD_BYTES:
                    added += await self._session.add(buffer)
                    buffer, size = [], 0
        except UsageError as error:
            error.added = added + await self._session.add(buffer)
            raise
        return added + await self._session.add(buffer)

    async def claim(self, limit: int = 100, *, lease: float = 60.0) -> Claim | None:
        """Lease up to `limit` ready items for `lease` seconds; None when nothing is ready."""
        pause, longest = LOOK_AGAIN
        patient_until = perf_counter() + BUSY_SECONDS
        while True:
            leased, reply = await self._claimer.claim(limit, lease=lease)
            if leased is not None:
                return Claim(leased)
            if not _more_is_ready(reply):
                return None
            if perf_counter() > patient_until:
                raise StoreUnavailable(
                    f"what is ready was held by other transactions for {BUSY_SECONDS:g} s: try again"
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def run(
        self,
        handler: Handler,
        *,
        workers: int = 100,
        lease: float = 60.0,
        timeout: float | None = None,
        grace: float = 10.0,
        until: Until = "done",
        output: Output | None = None,
        transaction: Transaction | None = None,
        handle_signals: bool = True,
        stop: Stop | None = None,
    ) -> Summary:
        """Cover the frontier with `handler`, up to `workers` items at once, and return what became of them.

        The handler returns an outcome, such as `item.retry(after=60, reason="busy")`; None means `item.done()`. If it
        raises, or takes longer than `timeout` seconds, the item is retried. Leases of `lease` seconds are renewed while
        a handler needs them; when this process dies, others have its items once they end.

        `until="done"` ends when nothing is left: also what is delayed, or to be visited again, and what others work on.
        `until="idle"` ends as soon as nothing can be started and nothing of this run is in flight, `until="stopped"`
        never by itself.

        SIGINT and SIGTERM stop it cleanly: nothing is started any more, what was claimed ahead is released, handlers
        have `grace` seconds to finish before they are cancelled and their items released, and all is settled. It ends
        5 seconds after the grace at the latest, whatever handlers and store do. A second signal ends it at once, with
        KeyboardInterrupt (SIGINT) or SystemExit (SIGTERM): what was in hand is taken over when its lease ends.
        `handle_signals=False` leaves signals alone, and so does a run in a thread that is not the main one.
        Cancelling the task stops it as cleanly, and so does `stop.request(reason)`.

        What outcomes hand in as `output` is written by `output` and committed with their settlement (INV-5);
        without one, such an outcome is refused and its item retried.

        With `transaction`, a function that opens one on the frontier's own database and returns an async context
        manager, the handler is called with the connection as a second argument: what it writes there and its outcome
        commit together, exactly once. If it raises, its writes are rolled back and the item is retried.

        While the store cannot be reached it waits. A handler whose lease ends meanwhile is cancelled.
        """
        return await run(
            self._session,
            self._claimer,
            handler,
            workers=workers,
            lease=lease,
            timeout=timeout,
            grace=grace,
            until=until,
            output=output,
            transaction=transaction,
            handle_signals=handle_signals,
            stop=stop,
        )

    # what to change

    async def pause(self, lane: str | None = None) -> None:
        """Start nothing more, of one lane or at all, until `resume`. What is under way goes on."""
        await self._pause(lane, paused=True)

    async def resume(self, lane: str | None = None) -> None:
        await self._pause(lane, paused=False)

    async def _pause(self, lane: str | None, *, paused: bool) -> None:
        if lane is None:
            await self.configure(paused=paused)
        else:
            await self._change_lane(lane, LaneChange(paused=paused))

    async def block(self, lane: str, *, until: datetime | float, at_least: bool = False) -> None:
        """Start nothing of a lane until a time, or for so many seconds; 0 lifts it. Where somebody has blocked it for
        longer, `at_least` leaves it so."""
        if isinstance(until, datetime):
            if not is_moment(until):
                raise UsageError(f"until={until!r} is {codec.NO_MOMENT}")
            moment = from_datetime(until)
        else:
            seconds = codec.check_seconds("until", until)
            moment = await self._lane_time(lane) + seconds if seconds else 0
        await self._change_lane(lane, LaneChange(blocked_until=moment, at_least=at_least))

    async def _lane_time(self, lane: str) -> int:
        """What time it is for a lane: where the store's clock has stepped back, its partition's goes on from before."""
        codec.check_lane(lane)
        status = await self._store.status()
        number, _ = address(lane, self._store.settings.partitions)
        return max([status.now, *(part.time for part in status.partitions if part.partition == number)])

    async def limit(
        self,
        lane: str,
        *,
        min_interval: float | str | None = None,
        concurrency: int | str | None = None,
    ) -> None:
        """Set a lane's own limits: seconds between items, items at once (0: any number). "default" goes back to the
        frontier's; what is not given stays."""
        interval = None if min_interval is None else _limit(min_interval, codec.check_seconds, "min_interval")
        at_once = None if concurrency is None else _limit(concurrency, codec.check_concurrency, "concurrency")
        await self._change_lane(lane, LaneChange(min_interval=interval, concurrency=at_once))

    async def _change_lane(self, lane: str, change: LaneChange) -> None:
        codec.check_lane(lane)
        await self._store.change_lane(address(lane, self._store.settings.partitions)[0], lane, change)
        self._session.emit(events.LaneChanged(lane))

    async def configure(
        self,
        *,
        min_interval: float | None = None,
        concurrency: int | None = None,
        max_attempts: int | None = None,
        paused: bool | None = None,
    ) -> None:
        """Change the defaults of the whole frontier, for every process that works on it.

        Where they allow more than before, lanes that wait are told one by one: with many, that takes a while. Done
        again with the same values, what was broken off is made good.
        """
        changes = codec.check_settings(min_interval, concurrency, max_attempts)
        await self._change_settings(changes, paused=paused)
        self._session.emit(events.SettingsChanged(paused))

    async def reopen(self, keys: Iterable[str], *, lane: str | None = None) -> int:
        """Make done or dead items ready again, by one key or several, and reset their attempts; return their number.

        An item that is scheduled for another visit keeps its time. If the connection breaks in between, the number may
        be too low, as with `add`.
        """
        return await self._reopen_keys(keys, lane, {"done", "dead"})

    async def reopen_dead(
        self, keys: Iterable[str] | None = None, *, lane: str | None = None, reason: str | None = None
    ) -> int:
        """Make dead items ready again: those with these keys or all, of one lane or of any, and with `reason` only
        those whose reason contains that text. Return their number."""
        if keys is not None:
            return await self._reopen_keys(keys, lane, {"dead"}, reason)
        reopened, after = 0, None
        began = max(part.time for part in (await self._store.status()).partitions)  # an item that dies again stays dead
        while page := await self._store.dead(after=after, limit=ADD_CHUNK):
            after = (page[-1].partition, page[-1].position)
            places = [
                (item.partition, item.position)
                for item in page
                if item.settled_at <= began and lane in (None, item.lane) and (reason is None or reason in item.reason)
            ]
            reopened += await self._store.reopen(places) if places else 0
        self._session.emit(events.Reopened(reopened))
        return reopened

    async def _reopen_keys(
        self, keys: Iterable[str], lane: str | None, states: set[str], reason: str | None = None
    ) -> int:
        reopened = 0
        for key in _keys(keys):
            places = [
                (found.partition, found.position)
                for found in await self._find(key, lane)
                if found.state in states
                and found.position is not None
                and (reason is None or reason in (found.reason or ""))
            ]
            reopened += await self._store.reopen(places) if places else 0
        self._session.emit(events.Reopened(reopened))
        return reopened

    async def learn(self, facts: Mapping[str, Any]) -> None:
        """Keep what a job knows, by key, for everybody who works on the frontier; what was known before gives way."""
        known = codec.facts(facts)
        for start in range(0, len(known), ADD_CHUNK):
            await self._store.learn(known[start : start + ADD_CHUNK])

    # what to ask

    async def facts(self, keys: Iterable[str]) -> dict[str, Any]:
        """What is known of these keys."""
        wanted = list(_keys(keys))
        known: dict[str, Any] = {}
        for start in range(0, len(wanted), ADD_CHUNK):
            found = await self._store.facts(wanted[start : start + ADD_CHUNK])
            known |= {key: json.loads(value) for key, value in found.items()}
        return known

    async def outputs(self) -> dict[str, int]:
        """The committed length of every output file: what an `Output` restores its own to before a run."""
        return await self._store.outputs()

    async def status(self) -> Status:
        """Exact counters and checkpoints, in a time that grows with the partitions only."""
        return summarize_status(await self._store.status())

    async def check(self) -> CheckReport:
        """Count every row and compare the result with the counters and checkpoints that the store keeps.

        This takes longer the larger the frontier is. Partitions that other processes change are counted again, up to
        five times, and then skipped: pause the frontier to check all of them.
        """
        return await check_store(self._store)

    async def explain(self, key: str, *, lane: str | None = None) -> Explanation:
        """Where a key is, and why it is not being worked on."""
        found = await self._find(key, lane)
        if not found:
            return explain_unknown(key, lane, await self._find(key, None) if lane is not None else ())
        status = await self._store.status()
        return explain(key, found, now=status.now, paused=status.signal.paused)

    async def _find(self, key: str, lane: str | None) -> Sequence[Found]:
        codec.check_key(key)
        if lane is not None:
            codec.check_lane(lane)
        lane_hash = None if lane is None else address(lane, self._store.settings.partitions)[1]
        return await self._store.find(key_hash(key), lane_hash)

    async def lane(self, lane: str) -> LaneRow | None:
        """A lane's limits and counters; None when there is no such lane."""
        codec.check_lane(lane)
        return await self._store.lane(address(lane, self._store.settings.partitions)[0], lane)

    async def lanes(self) -> AsyncIterator[LaneRow]:
        """Every lane, page by page."""
        after: tuple[int, int] | None = None
        while page := await self._store.lanes(after=after, limit=ADD_CHUNK):
            number, last = page[-1]
            after = (last.partition, number)
            for _, status in page:
                yield status

    async def dead(self) -> AsyncIterator[DeadRow]:
        """Every dead item, page by page."""
        after: tuple[int, int] | None = None
        while page := await self._store.dead(after=after, limit=ADD_CHUNK):
            after = (page[-1].partition, page[-1].position)
            for item in page:
                yield item

    async def pending(self) -> AsyncIterator[PendingRow]:
        """Every item that is ready, delayed or claimed and holds the checkpoint back, page by page."""
        after: tuple[int, int] | None = None
        while page := await self._store.pending(after=after, limit=ADD_CHUNK):
            after = (page[-1].partition, page[-1].position)
            for item in page:
                yield item

    async def _change_settings(self, changes: Mapping[str, int], *, paused: bool | None = None) -> None:
        before = await self._store.status()
        await self._store.change_settings(**changes, paused=paused)
        interval = before.settings.min_interval
        if "concurrency" in changes or changes.get("min_interval", interval + 1) <= interval:
            await self._place_lanes(before.now)

    async def _place_lanes(self, now: int) -> None:
        """Let lanes under the frontier's defaults that rest, or have as many in flight as they might, start by those of
        now."""
        after: tuple[int, int] | None = None
        while page := await self._store.lanes(after=after, limit=ADD_CHUNK):
            after = (page[-1][1].partition, page[-1][0])
            resting: defaultdict[int, list[int]] = defaultdict(list)
            for number, lane in page:
                late = lane.ready_at is None or lane.ready_at > now
                if late and lane.waiting and not lane.limits.paused and None in lane.limits:
                    resting[lane.partition].append(number)
            for partition, numbers in resting.items():
                await self._store.place_lanes(partition, numbers)


def _more_is_ready(reply: ClaimReply) -> bool:
    """Whether a claim that got nothing has not seen all that is ready: somebody held a partition, more was due or had
    been discovered than one look takes in, or it was only looked up that an earlier claim was not made."""
    if reply.signal.paused:
        return False
    return bool(reply.skipped) or (reply.next_ready_at is not None and reply.next_ready_at <= reply.now)


async def _each(items: ItemsIn) -> AsyncIterator[ItemIn]:
    if isinstance(items, Item | EncodedItem | str):
        yield items
    elif isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    elif isinstance(items, Iterable):
        for item in items:
            yield item
    else:
        raise UsageError(f"{items!r} is neither an item, nor a key, nor an iterable of them")


def _keys(keys: Iterable[str]) -> Iterable[str]:
    """A text is one key, as in `add`, and not so many of one letter."""
    return [keys] if isinstance(keys, str) else keys


def _limit(value: Any, check: Callable[[str, Any], int], name: str) -> int:
    if isinstance(value, str):
        if value != FRONTIER_DEFAULT:
            raise InvalidSetting(f'{name}={value!r}: a number, or "{FRONTIER_DEFAULT}" for the frontier\'s')
        return DEFAULT
    return check(name, value)
