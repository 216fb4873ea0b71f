"""Frontier: check arguments, call the store, and emit events."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from heapq import heappush, heappushpop
from time import perf_counter
from types import TracebackType
from typing import Any, Literal, Self

from swath.claim import Claim
from swath.core import events
from swath.core.check import CheckReport, check_store
from swath.core.claimer import Claimer
from swath.core.clock import as_datetime
from swath.core.drop import Dropper, empty_inboxes, list_items, list_pending
from swath.core.encoding import encode_drop, encode_facts, encode_item
from swath.core.errors import InvalidSetting, StoreUnavailable, UsageError
from swath.core.inspection import (
    AuditEntry,
    ClaimInfo,
    DeadItem,
    DoneItem,
    ItemPage,
    LaneInfo,
    LaneRanking,
    PendingItem,
    build_audit_entry,
    build_claim_info,
    build_dead_item,
    build_done_item,
    build_found_row,
    build_item,
    build_lane_info,
    build_pending_item,
    format_cursor,
    parse_cursor,
)
from swath.core.item import UNCHANGED, Dead, Done, Item, Unchanged
from swath.core.key_check import KeyCheckReport, check_keys
from swath.core.lane import hash_key, locate_lane
from swath.core.repair import repair
from swath.core.session import Session
from swath.core.status import (
    Explanation,
    Status,
    StoreTime,
    explain,
    explain_unknown,
    is_waiting,
    list_oldest,
    summarize_status,
)
from swath.core.store import (
    ADD_CHUNK,
    DEFAULT,
    ITEM_STATES,
    MAX_EXAMINED,
    AuditChange,
    ClaimReply,
    EncodedItem,
    Found,
    ItemRow,
    LaneChange,
    LaneRow,
    OutputMove,
    Store,
)
from swath.core.validation import (
    MAX_KEY_BYTES,
    check_concurrency,
    check_key,
    check_lane,
    check_moment,
    check_seconds,
    check_settings,
    check_text,
    show,
)
from swath.runner.execution import Handler, Transaction
from swath.runner.monitor import RunMonitor
from swath.runner.output import OnRefused, Output, Sink
from swath.runner.run import Summary, Until, run
from swath.runner.shutdown import Stop

ADD_BUFFER = 10_000  # items that a long addition keeps in memory
ADD_BYTES = 16_000_000  # and bytes of their payloads
MIN_CLAIM_PAUSE = 0.001  # seconds between two attempts of a claim that found every ready partition locked
MAX_CLAIM_PAUSE = 0.05
BUSY_SECONDS = 30.0  # how long such a claim keeps trying
FRONTIER_DEFAULT = "default"  # for `limit()`: use the default of the frontier

NewItem = Item | EncodedItem | str  # an item, an encoded item or a key
NewItems = NewItem | Iterable[NewItem] | AsyncIterable[NewItem]


class Frontier:
    """A durable set of work items. `swath.open` returns it."""

    def __init__(self, store: Store, *, observer: events.Observer | None = None, worker: str | None = None) -> None:
        self._store = store
        self._session = Session(store, observer=observer, worker=worker)
        self._claimer = Claimer(self._session)

    @property
    def worker(self) -> str:
        """The name under which this process claims items."""
        return self._session.worker

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the store. Items of unsettled claims become ready again when their lease expires."""
        await self._store.close()

    # Adding, claiming, running

    async def add(self, items: NewItems) -> int:
        """Add one item, an iterable or an async iterable of items, of any length; return how many were new.

        Items are durable when `add` returns (INV-4). Memory stays bounded (INV-9). If the connection breaks, `add`
        sends items again; those that the store already got are then not counted as new.
        """
        added = 0
        partitions = self._store.settings.partitions
        buffer: list[EncodedItem] = []
        size = 0
        try:
            async for item in _iterate(items):
                encoded = encode_item(item, partitions)
                buffer.append(encoded)
                size += len(encoded.payload or "")
                if len(buffer) == ADD_BUFFER or size >= ADD_BYTES:
                    added += await self._session.add(buffer)
                    buffer, size = [], 0
        except UsageError as error:
            error.added = added + await self._session.add(buffer)
            raise
        return added + await self._session.add(buffer)

    def encode(self, items: NewItem | Iterable[NewItem], *, drop_known: bool = True) -> list[EncodedItem]:
        """Check and encode items. With `drop_known`, leave out items that this process knows to be in the store.

        `add` and `item.done(discovered=…)` take the result. Use it if many of your items were added before, or to
        check items without adding them.
        """
        partitions = self._store.settings.partitions
        several = [items] if isinstance(items, Item | EncodedItem | str) else items
        encoded = [encode_item(item, partitions) for item in several]
        return self._session.drop_known(encoded) if drop_known else encoded

    def knows(self, item_hash: bytes) -> bool:
        """Return whether this process knows that an item is in the store. Pass its `EncodedItem.hash`.

        False means unknown: the process remembers at least the last 100,000 items that the store confirmed.
        """
        return self._session.knows(item_hash)

    async def claim(self, limit: int = 100, *, lease: float = 60.0) -> Claim | None:
        """Lease up to `limit` ready items for `lease` seconds; return None if nothing is ready."""
        pause = MIN_CLAIM_PAUSE
        give_up_at = perf_counter() + BUSY_SECONDS
        while True:
            leased, reply = await self._claimer.claim(limit, lease=lease)
            if leased is not None:
                return Claim(leased)
            if not _may_have_missed_items(reply):
                return None
            if perf_counter() > give_up_at:
                raise StoreUnavailable(
                    f"other transactions held every ready item for {BUSY_SECONDS:g} s: try again later"
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_CLAIM_PAUSE)

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
        sink: Sink | None = None,
        on_refused: OnRefused | None = None,
        transaction: Transaction | None = None,
        handle_signals: bool = True,
        stop: Stop | None = None,
        monitor: RunMonitor | None = None,
    ) -> Summary:
        """Call `handler` for the items of the frontier, up to `workers` at once; return counts by outcome.

        The handler returns an outcome, such as `item.retry(after=60, reason="busy")`; None means `item.done()`. If it
        raises an exception, or takes longer than `timeout` seconds, the item is retried. The runner renews leases of
        `lease` seconds while a handler runs; if this process dies, other workers get its items when the leases expire.

        `until="done"` waits for every item, including delayed items, revisits and items of other workers.
        `until="idle"` ends the run as soon as no item can be started and none of this run is in flight.
        `until="stopped"` keeps it running until it is stopped.

        SIGINT and SIGTERM stop the run cleanly. It starts no more items and releases those that it claimed ahead.
        Handlers have `grace` seconds to finish; then they are cancelled and their items released. The run ends at most
        5 seconds after the grace. A second signal ends it at once, with KeyboardInterrupt (SIGINT) or SystemExit
        (SIGTERM); other workers get its items when their leases expire. A run does not handle signals if
        `handle_signals=False` or outside the main thread.
        Cancelling the task or calling `stop.request(reason)` also stops the run cleanly.

        `output` writes the entries that outcomes pass as `output=` to files. The lengths of the files commit with the
        settlement (INV-5). Without `output`, such an outcome is refused and its item retried.

        With `sink`, a function, outcomes can pass rows with `item.done(rows=…)`. The run opens one transaction on the
        frontier's own database for a group of outcomes, calls `sink(connection, rows)` with all their rows in order,
        settles the outcomes and commits, so that rows and outcomes commit together (INV-5). The connection is a
        psycopg.AsyncConnection, or an sqlite3.Connection on the same file; a plain function is called in a thread. A
        row that the database refuses makes its own item dead, with the database's message as the reason, or with the
        outcome that `on_refused(item, output, message)` returns: then this function reports the refusal, instead of the
        monitor. Any other exception that the sink raises ends the run.

        With `transaction`, a function that opens a transaction on the frontier's own database and returns an async
        context manager, the handler gets the connection as a second argument. Its writes and its outcome commit
        together, exactly once. If the handler raises an exception, its writes are rolled back and the item is retried.

        The first error of each kind that the handler raises is logged with its traceback; later ones are counted in
        `Summary.errors`. A `monitor` shows errors and states, such as "paused" or "store away", while the run lasts.

        While the store is unavailable, the run waits. If a lease expires in that time, its handlers are cancelled.
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
            sink=sink,
            on_refused=on_refused,
            transaction=transaction,
            handle_signals=handle_signals,
            stop=stop,
            monitor=monitor,
        )

    # Changing lanes and settings

    async def pause(self, lane: str | None = None) -> None:
        """Start no more items of a lane, or of the whole frontier, until `resume`. Items in flight continue."""
        await self._pause(lane, paused=True)

    async def resume(self, lane: str | None = None) -> None:
        """End the pause of a lane or of the whole frontier."""
        await self._pause(lane, paused=False)

    async def _pause(self, lane: str | None, *, paused: bool) -> None:
        if lane is None:
            await self._configure({}, paused=paused)
        else:
            await self._change_lane(lane, LaneChange(paused=paused))
        await self._audit("pause" if paused else "resume", lane=lane)

    async def block(
        self, lane: str, *, until: datetime | None = None, seconds: float | None = None, at_least: bool = False
    ) -> None:
        """Start no items of a lane until a time, or for a number of seconds; `seconds=0` ends the block.

        `until` is a time of the wall clock: if that is set, the block ends when it shows this time. `seconds` are not
        affected by setting a clock, except that of a PostgreSQL server.

        With `at_least`, a block that already lasts longer stays as it is.
        """
        if (until is None) == (seconds is None):
            raise UsageError(f"block({lane!r}) takes either until= or seconds=: pass one of them")
        if until is not None:
            change = LaneChange(blocked_until=check_moment("until", until), at_least=at_least)
        else:
            change = LaneChange(blocked_for=check_seconds("seconds", seconds), at_least=at_least)
        await self._change_lane(lane, change)

    async def limit(
        self,
        lane: str,
        *,
        min_interval: float | Literal["default"] | Unchanged = UNCHANGED,
        concurrency: int | Literal["default"] | Unchanged | None = UNCHANGED,
        audit: bool = True,
    ) -> None:
        """Set the limits of one lane: seconds between two starts, and items in flight (None: unlimited).

        "default" means the default of the frontier. Limits that you leave out are not changed. Pass `audit=False` if a
        program adjusts limits all the time: the audit keeps the last 1,000 changes.
        """
        change = LaneChange(
            min_interval=_encode_limit(
                "min_interval", min_interval, lambda value: check_seconds("min_interval", value)
            ),
            concurrency=_encode_limit("concurrency", concurrency, check_concurrency),
        )
        await self._change_lane(lane, change)
        if audit:
            given = {"min_interval": min_interval, "concurrency": concurrency}
            await self._audit("limit", lane=lane, detail=_list_given(given, unset=(UNCHANGED,)))

    async def _change_lane(self, lane: str, change: LaneChange) -> None:
        check_lane(lane)
        await self._store.change_lane(locate_lane(lane, self._store.settings.partitions)[0], lane, change)
        self._session.emit(events.LaneChanged(lane))

    async def configure(
        self,
        *,
        min_interval: float | None = None,
        concurrency: int | Unchanged | None = UNCHANGED,
        max_attempts: int | None = None,
        paused: bool | None = None,
    ) -> None:
        """Change the defaults of the frontier, for every process. Values that you leave out are not changed.

        `concurrency=None` means unlimited. If the new defaults allow more than the old ones, waiting lanes are
        rescheduled one by one, which takes a while if there are many. If the call is interrupted, call again with the
        same values.
        """
        await self._configure(check_settings(min_interval, concurrency, max_attempts), paused=paused)
        given = {"min_interval": min_interval, "concurrency": concurrency, "max_attempts": max_attempts}
        detail = _list_given(given, unset=(None, UNCHANGED))
        if concurrency is None:
            detail["concurrency"] = None
        await self._audit("configure", detail=detail if paused is None else detail | {"paused": paused})

    async def _configure(self, changes: Mapping[str, int], *, paused: bool | None) -> None:
        await self._change_settings(changes, paused=paused)
        self._session.emit(events.SettingsChanged(paused))

    async def drop(
        self,
        keys: str | Iterable[str] | None = None,
        *,
        lane: str | None = None,
        where: Callable[[PendingItem], bool] | None = None,
        reason: str = "by frontier.drop()",
    ) -> int:
        """Make waiting items done without handling them; return how many.

        Choose them by key, by lane, by a function that says which ones, or by several of these. Items that are ready,
        delayed or just discovered are dropped, and revisits are cancelled. Items in flight are not changed: their
        workers settle them.

        The result of a dropped item is `{"dropped": reason}`. `reopen_done(result_key="dropped")` makes dropped items
        ready again. As with `add`, the number may be too small if the connection breaks.
        """
        if keys is None and lane is None and where is None:
            raise UsageError("drop() without keys, lane= or where= would drop everything: choose items")
        if lane is not None:
            check_lane(lane)
        wanted = None if keys is None else _list_keys(keys)
        for key in wanted or ():
            check_key(key)
        dropper = Dropper(self._store, where, encode_drop(reason))
        dropped = await (dropper.drop_all(lane) if wanted is None else dropper.drop_keys(wanted, lane))
        self._session.emit(events.Dropped(dropped))
        await self._audit("drop", lane=lane, items=dropped, detail={"reason": reason})
        return dropped

    async def empty_inbox(self, lane: str | None = None) -> None:
        """Take in items that workers have discovered, for one lane or all, as the next claims would do.

        Until then `pending()` does not list them. Even a paused frontier takes them in.
        """
        if lane is not None:
            check_lane(lane)
        await empty_inboxes(self._store, lane)

    async def reopen(self, keys: str | Iterable[str], *, lane: str | None = None) -> int:
        """Make done or dead items ready again by key, with their attempts reset; return how many.

        An item that waits for its revisit is not changed. As with `add`, the number may be too small if the
        connection breaks.
        """
        reopened = 0
        for key in _list_keys(keys):
            reopened += await self._reopen_found(key, lane, {"done", "dead"})
        self._session.emit(events.Reopened(reopened))
        await self._audit("reopen", lane=lane, items=reopened)
        return reopened

    async def reopen_dead(
        self, keys: str | Iterable[str] | None = None, *, lane: str | None = None, reason: str | None = None
    ) -> int:
        """Make dead items ready again; return how many.

        Choose them by key, by lane, by text that their reason contains, or by several of these; all if none is given.
        """
        if keys is None:
            reopened = await self._reopen_all_dead(lane, reason)
        else:
            reopened = 0
            for key in _list_keys(keys):
                reopened += await self._reopen_found(key, lane, {"dead"}, reason)
        self._session.emit(events.Reopened(reopened))
        await self._audit("reopen_dead", lane=lane, items=reopened, detail=_list_given({"reason": reason}))
        return reopened

    async def repair(self, outcomes: Iterable[Done | Dead], *, outputs: Sequence[OutputMove] = ()) -> None:
        """Settle dead items again, without a claim: what failed was done another way, and nothing is started.

        Pass outcomes of the `item` of dead items, such as `dead.item.done(result=…, discovered=…)`, or
        `dead.item.dead(reason=…)` if it failed again. The outcomes of each partition commit together with all that
        belongs to them (INV-5), and with `outputs` if all are of one partition. The items keep their positions. Pauses
        and limits of lanes do not apply, and no visit is counted.

        If one of the items is not dead any more, because another process has re-opened or repaired it, this raises
        InvalidOutcome and changes nothing in its partition. After StoreUnavailable it is not known whether the
        outcomes took effect: those that did are not dead any more, or have their new reason.
        """
        await repair(self._session, outcomes, outputs)

    async def reopen_done(
        self,
        keys: str | Iterable[str] | None = None,
        *,
        result_key: str,
        lane: str | None = None,
        where: Callable[[DoneItem], bool] | None = None,
        audit: bool = True,
    ) -> int:
        """Make done items ready again whose result is a mapping with `result_key`; return how many.

        Such as "dropped" for items that `drop` settled. Items that are done with another result are never chosen.
        Choose among those with it by key, by lane, by a function that says which ones, or by several of these; all if
        none is given. Pass `audit=False` if a program does this all the time.
        """
        check_text("result_key", result_key, MAX_KEY_BYTES)
        reopened = 0
        began = await self._read_latest_time()  # items that are done again stay done
        pages = self._read_done(lane, result_key) if keys is None else self._find_done(_list_keys(keys), lane)
        async for page in pages:
            chosen = [
                (row.partition, row.position)
                for row in page
                if _is_older(row, began) and _is_chosen(build_done_item(row), result_key, where)
            ]
            reopened += await self._store.reopen(chosen) if chosen else 0
        self._session.emit(events.Reopened(reopened))
        if audit:
            await self._audit("reopen_done", lane=lane, items=reopened, detail={"result_key": result_key})
        return reopened

    async def _audit(
        self, action: str, *, lane: str | None = None, items: int | None = None, detail: Mapping[str, Any] | None = None
    ) -> None:
        """Record a change after it was made. A process that dies in between leaves no record."""
        if items == 0:
            return
        text = json.dumps(detail, ensure_ascii=False) if detail else None
        await self._store.audit_change(AuditChange(self._session.actor, action, lane, items, text))

    async def audit(self, *, limit: int = 100) -> Sequence[AuditEntry]:
        """Return the last changes that people made, the latest first: who, when, and how many items.

        The store keeps the last 1,000: pauses, limits, drops and re-opened items. Blocks and what jobs change on their
        own while they run are not among them.
        """
        _check_limit(limit)
        return [build_audit_entry(row) for row in await self._store.audit(limit=limit)]

    async def _find_done(self, keys: Sequence[str], lane: str | None) -> AsyncIterator[Sequence[ItemRow]]:
        for key in keys:
            yield [build_found_row(found) for found in await self._find(key, lane) if found.state == "done"]

    async def _reopen_all_dead(self, lane: str | None, reason: str | None) -> int:
        reopened = 0
        began = await self._read_latest_time()  # items that die again stay dead
        async for page in list_items(self._store, "dead", lane=self._locate(lane)):
            chosen = [
                (row.partition, row.position)
                for row in page
                if _is_older(row, began) and (reason is None or reason in (row.reason or ""))
            ]
            reopened += await self._store.reopen(chosen) if chosen else 0
        return reopened

    async def _reopen_found(self, key: str, lane: str | None, states: set[str], reason: str | None = None) -> int:
        chosen = [
            (found.partition, found.position)
            for found in await self._find(key, lane)
            if found.state in states
            and found.position is not None
            and (reason is None or reason in (found.reason or ""))
        ]
        return await self._store.reopen(chosen) if chosen else 0

    async def _read_latest_time(self) -> int:
        return max(part.time for part in (await self._store.status()).partitions)

    async def learn(self, facts: Mapping[str, Any]) -> None:
        """Store facts by key, for every process that works on the frontier. A newer value replaces the older one."""
        encoded = encode_facts(facts)
        for start in range(0, len(encoded), ADD_CHUNK):
            await self._store.learn(encoded[start : start + ADD_CHUNK])

    # Reading

    async def facts(self, keys: str | Iterable[str]) -> dict[str, Any]:
        """Return the facts with these keys, without keys that have no fact."""
        wanted = _list_keys(keys)
        facts: dict[str, Any] = {}
        for start in range(0, len(wanted), ADD_CHUNK):
            found = await self._store.facts(wanted[start : start + ADD_CHUNK])
            facts |= {key: json.loads(value) for key, value in found.items()}
        return facts

    async def outputs(self) -> dict[str, int]:
        """Return the committed length of every output file. Before a run, an `Output` truncates its files to it."""
        return await self._store.outputs()

    async def counters(self) -> dict[str, int]:
        """Return the counters of the frontier: the sums of what outcomes passed as `counters=`."""
        return await self._store.counters()

    async def read_clock(self) -> StoreTime:
        """Return the time of the store and its wall clock, whatever the clock of this machine says."""
        reading = await self._store.read_clock()
        return StoreTime(as_datetime(reading.now), as_datetime(reading.wall))

    async def status(self) -> Status:
        """Return exact counts and checkpoints. The cost depends only on the number of partitions."""
        status = await self._store.status()
        oldest = list_oldest(status)
        times = await self._store.date_positions(oldest) if oldest else ()
        return summarize_status(status, {partition: time for (partition, _), time in zip(oldest, times, strict=True)})

    async def check(self) -> CheckReport:
        """Count every row and compare the result with the counters and checkpoints that the store keeps.

        This takes longer the larger the frontier is. Partitions that other processes change are counted again, up to
        five times, and then skipped: pause the frontier to check all of them.
        """
        return await check_store(self._store)

    async def check_keys(self, *, after: str | None = None, seconds: float | None = None) -> KeyCheckReport:
        """Check that every key is in exactly one place: not in none, and not in two (INV-4, INV-7).

        This reads every item, in steps of a thousand, and works beside other processes. With `seconds`, it stops after
        that time; pass the `after` of the report to continue. A report with 1,000 mismatches is not complete, either.
        """
        return await check_keys(self._store, after=after, seconds=seconds)

    async def explain(self, key: str, *, lane: str | None = None) -> Explanation:
        """Return the state of a key, and why no worker is handling it."""
        found = await self._find(key, lane)
        if not found:
            return explain_unknown(key, lane, await self._find(key, None) if lane is not None else ())
        first, since = found[0], None
        if is_waiting(first) and first.position is not None:
            (since,) = await self._store.date_positions([(first.partition, first.position)])
        return explain(key, found, await self._store.status(), since)

    async def _find(self, key: str, lane: str | None) -> Sequence[Found]:
        check_key(key)
        if lane is not None:
            check_lane(lane)
        lane_hash = None if lane is None else locate_lane(lane, self._store.settings.partitions)[1]
        return await self._store.find(hash_key(key), lane_hash)

    async def lane(self, lane: str) -> LaneInfo | None:
        """Return the limits, the state and the counters of a lane, or None if it does not exist."""
        check_lane(lane)
        row = await self._store.lane(locate_lane(lane, self._store.settings.partitions)[0], lane)
        return None if row is None else build_lane_info(row, (await self._store.status()).settings)

    async def lanes(self) -> AsyncIterator[LaneInfo]:
        """Iterate over all lanes, page by page."""
        settings = (await self._store.status()).settings
        after: tuple[int, int] | None = None
        while page := await self._store.lanes(after=after, limit=ADD_CHUNK):
            number, last = page[-1]
            after = (last.partition, number)
            for _, row in page:
                yield build_lane_info(row, settings)

    async def rank_lanes(
        self,
        *,
        by: Literal["waiting", "ready"],
        limit: int = 100,
        where: Callable[[LaneInfo], bool] | None = None,
        seconds: float = 2.0,
    ) -> LaneRanking:
        """Return the lanes that have the most items waiting, or those that may start an item first.

        `where` chooses lanes. The store has no such order, so this call reads lanes for at most `seconds`; the result
        says how many, and whether these were all. Lanes that start nothing until something changes are not "ready".
        """
        if by not in ("waiting", "ready"):
            raise InvalidSetting(f'by={show(by)}: pass "waiting" or "ready"')
        _check_limit(limit)
        end = perf_counter() + seconds
        settings = (await self._store.status()).settings
        best: list[tuple[int, int, LaneInfo]] = []  # a heap whose first entry is the last of the ranking
        examined = 0
        after: tuple[int, int] | None = None
        while page := await self._store.lanes(after=after, limit=ADD_CHUNK):
            after = (page[-1][1].partition, page[-1][0])
            for _, row in page:
                examined += 1
                rank = _rank_lane(row, by)
                if rank is None or (len(best) == limit and rank <= best[0][0]):
                    continue
                lane = build_lane_info(row, settings)
                if where is None or where(lane):
                    (heappushpop if len(best) == limit else heappush)(best, (rank, -examined, lane))
            if len(page) < ADD_CHUNK:
                break
            if perf_counter() >= end:
                return LaneRanking([lane for *_, lane in sorted(best, reverse=True)], examined, complete=False)
        return LaneRanking([lane for *_, lane in sorted(best, reverse=True)], examined, complete=True)

    async def items(
        self, *, state: str, lane: str | None = None, after: str | None = None, limit: int = 100
    ) -> ItemPage:
        """Return a page of at most `limit` items in a state: "ready", "delayed", "claimed", "done" or "dead".

        Pass the `after` of a page to get the next one. A call reads at most 10,000 rows: a page of a lane, for which
        only ready items have an index, may be empty before the listing ends. An item that changes its state between
        two calls may be missing. `dead`, `results` and `pending` go through all pages.
        """
        if state not in ITEM_STATES:
            raise InvalidSetting(f"state={show(state)}: pass one of {', '.join(ITEM_STATES)}")
        _check_limit(limit)
        place = self._locate(lane)
        start = None if after is None else parse_cursor(after)
        page = await self._store.items(state, lane=place, after=start, limit=limit)
        return ItemPage(
            [build_item(row) for row in page.rows], None if page.after is None else format_cursor(page.after)
        )

    async def claims(self) -> AsyncIterator[ClaimInfo]:
        """Iterate over the claims that hold items, the oldest first, page by page."""
        now = (await self._store.read_clock()).wall
        after = 0
        while page := await self._store.claims(after=after, limit=ADD_CHUNK):
            after = page[-1].fence
            for row in page:
                yield build_claim_info(row, now)

    async def dead(
        self, keys: str | Iterable[str] | None = None, *, lane: str | None = None
    ) -> AsyncIterator[DeadItem]:
        """Iterate over dead items, page by page: all, those with some keys, those of a lane, or both."""
        if keys is None:
            async for page in list_items(self._store, "dead", lane=self._locate(lane)):
                for row in page:
                    yield build_dead_item(row)
            return
        for key in _list_keys(keys):
            for found in await self._find(key, lane):
                if found.state == "dead":
                    yield build_dead_item(build_found_row(found))

    async def results(self, *, lane: str | None = None, result_key: str | None = None) -> AsyncIterator[DoneItem]:
        """Iterate over the done items that have a result: what their handlers returned.

        With `result_key`, only those whose result is a mapping with this key. The items are read page by page, so
        memory stays bounded (INV-9). The store has no index of lanes or results: it reads every done item, or with
        `lane`, those of its partition.
        """
        if result_key is not None:
            check_text("result_key", result_key, MAX_KEY_BYTES)
        async for page in self._read_done(lane, result_key):
            for row in page:
                if row.result is not None and _is_chosen(item := build_done_item(row), result_key, None):
                    yield item

    def _read_done(self, lane: str | None, result_key: str | None) -> AsyncIterator[Sequence[ItemRow]]:
        """Yield pages of done items; with `result_key`, those whose result contains it somewhere."""
        text = None if result_key is None else f"{json.dumps(result_key)}:"  # as `encode_json` writes it
        return list_items(self._store, "done", lane=self._locate(lane), result_text=text)

    def _locate(self, lane: str | None) -> tuple[int, str] | None:
        """Return the partition and the name of a lane."""
        if lane is None:
            return None
        check_lane(lane)
        return locate_lane(lane, self._store.settings.partitions)[0], lane

    async def pending(self, *, lane: str | None = None, revisits: bool = False) -> AsyncIterator[PendingItem]:
        """Iterate over the items that hold the checkpoint back, page by page: ready, delayed or claimed ones.

        With `revisits`, also over items that are done and wait for their next visit. With `lane`, only over the items
        of this lane, in an order of their own; an item that changes its state meanwhile may be missing or come twice.
        """
        if lane is not None:
            check_lane(lane)
        async for rows in list_pending(self._store, lane, revisits=revisits):
            for row in rows:
                yield build_pending_item(row)

    async def _change_settings(self, changes: Mapping[str, int], *, paused: bool | None = None) -> None:
        before = await self._store.status()
        await self._store.change_settings(**changes, paused=paused)
        interval = before.settings.min_interval
        if "concurrency" in changes or changes.get("min_interval", interval + 1) <= interval:
            await self._reschedule_lanes(before.now)

    async def _reschedule_lanes(self, now: int) -> None:
        """Apply new defaults to the waiting lanes that use them."""
        after: tuple[int, int] | None = None
        while page := await self._store.lanes(after=after, limit=ADD_CHUNK):
            after = (page[-1][1].partition, page[-1][0])
            late: defaultdict[int, list[int]] = defaultdict(list)
            for number, lane in page:
                is_late = lane.ready_at is None or lane.ready_at > now
                if is_late and lane.waiting and not lane.limits.paused and None in lane.limits:
                    late[lane.partition].append(number)
            for partition, numbers in late.items():
                await self._store.requeue_lanes(partition, numbers)


def _may_have_missed_items(reply: ClaimReply) -> bool:
    """Return whether items may be ready although the claim got none.

    There are three causes: another transaction held a partition, more items were due or discovered than one claim
    makes ready, or the store only found out that an earlier claim had not been made.
    """
    if reply.signal.paused:
        return False
    return bool(reply.skipped) or (reply.next_ready_at is not None and reply.next_ready_at <= reply.now)


async def _iterate(items: NewItems) -> AsyncIterator[NewItem]:
    if isinstance(items, Item | EncodedItem | str):
        yield items
    elif isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    elif isinstance(items, Iterable):
        for item in items:
            yield item
    else:
        raise UsageError(f"{show(items)} is not an item, a key or an iterable of them")


def _list_keys(keys: str | Iterable[str]) -> list[str]:
    """Treat a bare string as one key instead of iterating over its characters."""
    return [keys] if isinstance(keys, str) else list(keys)


def _check_limit(limit: int) -> None:
    if type(limit) is not int or not 1 <= limit <= MAX_EXAMINED:
        raise InvalidSetting(f"limit={show(limit)}: pass a whole number from 1 to {MAX_EXAMINED:,}")


def _rank_lane(row: LaneRow, by: Literal["waiting", "ready"]) -> int | None:
    """Return a number that is higher the earlier a lane comes in a ranking, or None if it is not in it."""
    if by == "waiting":
        return row.waiting or None
    return None if row.ready_at is None else -row.ready_at


def _is_older(row: ItemRow, moment: int) -> bool:
    return row.settled_at is not None and row.settled_at <= moment


def _is_chosen(item: DoneItem, result_key: str | None, where: Callable[[DoneItem], bool] | None) -> bool:
    has_key = result_key is None or (isinstance(item.result, dict) and result_key in item.result)
    return has_key and (where is None or where(item))


def _list_given(values: Mapping[str, Any], *, unset: Sequence[Any] = (None,)) -> dict[str, Any]:
    return {name: value for name, value in values.items() if not any(value is one for one in unset)}


def _encode_limit(name: str, value: Any, check: Callable[[Any], int]) -> int | None:
    """Return a limit as LaneChange takes it: None leaves it unchanged."""
    if value is UNCHANGED:
        return None
    if isinstance(value, str):
        if value != FRONTIER_DEFAULT:
            raise InvalidSetting(f'{name}={show(value)}: pass a number, or "{FRONTIER_DEFAULT}" for the default')
        return DEFAULT
    return check(value)
