"""PostgresStore: each move is one call of its function in `functions/`."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import chain, groupby, repeat
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from swath.backends.postgres.array_literals import boolean_array, bytes_array, number_array, text_array
from swath.backends.postgres.connections import AsyncConnection, Connections, connect
from swath.backends.postgres.errors import FORMAT, passes_at_once, translate, translated, wrong_format
from swath.backends.postgres.location import Target
from swath.backends.postgres.migration import create as create_frontier
from swath.backends.postgres.migration import stored_format
from swath.backends.postgres.notify import Listener
from swath.backends.postgres.statements import QUERIES
from swath.core.clock import Clock
from swath.core.counters import NO_COUNTERS
from swath.core.errors import InvalidStoreURL, NotAFrontier, StoreFull, StoreUnavailable, WrongTransaction
from swath.core.item import DEFAULT_PRIORITY, Item
from swath.core.lane import LaneLimits
from swath.core.store import (
    AHEAD_LIMIT,
    DELAYED_DRAIN,
    INBOX_DRAIN,
    PARTITIONS_PER_CLAIM,
    ClaimRef,
    ClaimReply,
    ClaimRequest,
    DeadRow,
    EncodedItem,
    Fact,
    Found,
    LaneChange,
    LaneRow,
    Move,
    MoveKind,
    PartitionStatus,
    PendingRow,
    Settings,
    Settlement,
    SettleReply,
    Signal,
    StoreStatus,
)

log = logging.getLogger("swath")

ADDING_AT_ONCE = 3  # of the connections that a process has
KEEP_ANY_TEXT = ("UTF8", "SQL_ASCII")  # the latter keeps our UTF-8 as it is


class PostgresStore:
    """A frontier in a schema of a PostgreSQL database."""

    def __init__(self, target: Target, settings: Settings, *, clock: Clock | None, connections: Connections) -> None:
        self.settings = settings
        self.target = target
        self._clock = clock
        self._connections = connections
        self._listener = Listener(target)
        self._versions: dict[int, int] = {}
        self._rewound = 0
        self._doubtful: set[int] = set()  # tokens of claims that were not answered
        self._calls: dict[str, str] = {}  # statements by the name of the function

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        settings: Settings | None = None,
        create: bool = True,
        clock: Clock | None = None,
        connections: Connections | None = None,
    ) -> "PostgresStore":
        """Open the frontier at `url`, and create it with `settings` if there is none."""
        target = Target.parse(url)
        connections = connections or Connections(lambda: connect(target.dsn))
        try:
            with translated(target.shown, doing="opening"):
                async with connections.lend() as connection:
                    stored = await _open(connection, target, settings if create else None)
        except BaseException:
            await connections.close()
            raise
        return cls(target, stored, clock=clock, connections=connections)

    async def close(self) -> None:
        if self._connections.forked:
            return  # they are not this process's to close
        await self._listener.close()
        await self._connections.close()

    # the moves

    async def add(self, items: Sequence[EncodedItem]) -> int:
        """Some partitions at a time, since each spends half of its time waiting for the disk."""
        parts = defaultdict[int, list[EncodedItem]](list)
        for item in items:
            parts[item.partition].append(item)
        left = iter(sorted(parts.items()))

        async def add_some() -> int:
            added = 0
            for partition, mine in left:
                row = await self._call("add", FORMAT, self._now(), partition, *_columns(mine), doing="adding")
                added += row[0]
            return added

        at_once = min(ADDING_AT_ONCE, len(parts))
        outcomes = await asyncio.gather(*(add_some() for _ in range(at_once)), return_exceptions=True)
        self._listener.wake()
        added = 0
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            added += outcome
        return added

    async def claim(self, request: ClaimRequest) -> ClaimReply:
        order = list(request.order)
        if request.wait_for is not None:
            order.remove(request.wait_for)
            order.insert(0, request.wait_for)
        arguments = (
            FORMAT,
            self._now(),
            request.limit,
            request.lease,
            request.worker,
            request.token,
            number_array(order),
            request.wait_for,
            PARTITIONS_PER_CLAIM,
            DELAYED_DRAIN,
            INBOX_DRAIN,
        )
        if request.token in self._doubtful:
            return await self._find_claim(request)
        before = dict(self._versions)
        try:
            row = await self._call("claim", *arguments, doing="claiming")
        except StoreUnavailable as failure:
            if isinstance(failure.__cause__, psycopg.Error) and not passes_at_once(failure.__cause__):
                raise  # the server said no, and would again: there is no doubt about the claim
            self._doubtful.add(request.token)
            return await self._find_claim(request)
        except asyncio.CancelledError:
            self._doubtful.add(request.token)
            raise
        self._watch_versions(row[12], before)
        items = await self._taken(request.token, row[1], row[14:26]) if row[1] else []
        (now, fence, expires_at, next_ready_at, skipped, recovered, died, paused, version) = row[:9]
        self.settings = self.settings._replace(min_interval=row[9], concurrency=row[10], max_attempts=row[11])
        return ClaimReply(
            now=now,
            fence=fence,
            items=items,
            expires_at=expires_at or now,
            next_ready_at=next_ready_at,
            skipped=skipped,
            recovered=recovered,
            died=died,
            starts_count=row[13],
            signal=Signal(paused, version),
        )

    async def _find_claim(self, request: ClaimRequest) -> ClaimReply:
        """The connection broke while claiming: whether the claim was made is looked up, not guessed (rule 5)."""
        row = await self._call(
            "find_claim", FORMAT, self._now(), request.token, request.lease, doing="looking for a claim"
        )
        self._doubtful.discard(request.token)
        now, fence, expires_at, paused, version = row
        items = await self._taken(request.token, fence, [None]) if fence else []
        return ClaimReply(now, fence, items, expires_at or now, now, (), 0, 0, True, Signal(paused, version))

    async def _taken(self, token: int, fence: int, columns: Sequence[Any]) -> list[Item]:
        """The items of a claim: from its reply or, where there were too many for that, read now."""
        if columns[0] is not None:
            return _taken_items(*columns)
        self._doubtful.add(token)  # until they are read
        row = await self._call("claimed_items", fence, doing="reading a claim")
        self._doubtful.discard(token)
        return _items(*row) if row[0] is not None else []

    def _watch_versions(self, pairs: Sequence[int], before: Mapping[int, int]) -> None:
        """A partition's version only rises; where it is below what was known before the claim was sent, the database
        was restored or failed over (rule 4). Of two claims at once, the later one may be answered first."""
        found = dict(zip(pairs[::2], pairs[1::2], strict=True))
        if any(version < before.get(partition, 0) for partition, version in found.items()):
            log.warning("%s went back in time: was it restored or failed over?", self.target.shown)
            self._rewound += 1
            self._versions.clear()
        for partition, version in found.items():
            self._versions[partition] = max(version, self._versions.get(partition, 0))

    @property
    def generation(self) -> int:
        return self._connections.broken + self._rewound

    async def renew(self, claim: ClaimRef, lease: int) -> int:
        row = await self._call(
            "renew", FORMAT, self._now(), claim.fence, claim.token, lease, doing=f"renewing claim {claim.fence}"
        )
        return int(row[0])

    async def settle(self, claim: ClaimRef, settlement: Settlement, *, connection: Any = None) -> SettleReply:
        arguments = (FORMAT, self._now(), settlement.partition, claim.fence, claim.token, *_settlement(settlement))
        doing = f"settling claim {claim.fence} on partition {settlement.partition}"
        if connection is not None:
            row = await self._settle_in(connection, arguments, doing)
        else:
            row = await self._call("settle", *arguments, doing=doing)
            self._listener.wake()
        now, discovered, checkpoint, _ = row
        return SettleReply(now, discovered, checkpoint)

    async def _settle_in(self, connection: Any, arguments: tuple[Any, ...], doing: str) -> tuple[Any, ...]:
        """Settle inside the caller's transaction (rule 14). After an error PostgreSQL lets it only roll back."""
        if not isinstance(connection, psycopg.AsyncConnection | psycopg.Connection):
            raise WrongTransaction(f"{doing}: connection= takes a psycopg connection, not {type(connection).__name__}")
        status = connection.info.transaction_status
        if status == TransactionStatus.INERROR:
            raise WrongTransaction(f"{doing}: an earlier statement has failed the transaction: roll it back")
        # Without autocommit, psycopg begins a transaction with the first statement, which this may be.
        if status != TransactionStatus.INTRANS and (status != TransactionStatus.IDLE or connection.autocommit):
            raise WrongTransaction(
                f"{doing}: the connection has no open transaction ({status.name}): "
                "settle inside `with connection.transaction():`"
            )
        statement = self._statement("settle", len(arguments))
        elsewhere = f"{doing}: {connection.info.dbname!r}, the database of this connection, does not hold the frontier"
        try:
            with translated(self.target.shown, doing=doing, elsewhere=elsewhere):
                # Cursors of our own kind: those that the connection makes may want other placeholders.
                if isinstance(connection, psycopg.Connection):
                    cursor = psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row)
                    row = cursor.execute(statement, arguments).fetchone()
                else:
                    waiting = psycopg.AsyncCursor(connection, row_factory=psycopg.rows.tuple_row)
                    row = await (await waiting.execute(statement, arguments)).fetchone()
        except UnicodeEncodeError as error:
            raise WrongTransaction(
                f"{doing}: {connection.info.encoding}, the encoding of this connection, has no "
                f"{error.object[error.start : error.end]!r:.40}: connect with client_encoding=UTF8"
            ) from error
        assert row is not None
        return tuple(row)

    # what to change

    async def change_lane(self, partition: int, lane: str, change: LaneChange) -> None:
        await self._call("change_lane", FORMAT, self._now(), partition, lane, *change, doing=f"changing lane {lane}")
        self._listener.wake()

    async def change_settings(
        self,
        *,
        min_interval: int | None = None,
        concurrency: int | None = None,
        max_attempts: int | None = None,
        paused: bool | None = None,
    ) -> None:
        values = (min_interval, concurrency, max_attempts, paused)
        await self._call("change_settings", FORMAT, self._now(), *values, doing="changing settings")
        self.settings = (await self.status()).settings
        self._listener.wake()

    async def place_lanes(self, partition: int, numbers: Sequence[int]) -> None:
        given = (partition, number_array(numbers))
        await self._call("place_lanes", FORMAT, self._now(), *given, doing="placing lanes")
        self._listener.wake()

    async def reopen(self, places: Sequence[tuple[int, int]]) -> int:
        reopened = 0
        for partition in sorted({partition for partition, _ in places}):
            positions = number_array([position for number, position in places if number == partition])
            row = await self._call("reopen", FORMAT, self._now(), partition, positions, doing="re-opening")
            reopened += row[0]
        self._listener.wake()
        return reopened

    async def learn(self, facts: Sequence[Fact]) -> None:
        await self._call("learn", FORMAT, *_facts(list({fact.key: fact for fact in facts}.values())), doing="learning")

    # what to ask

    async def signal(self) -> Signal:
        rows = await self._ask("signal")
        return Signal(*rows[0])

    async def status(self) -> StoreStatus:
        frontier = (await self._ask("frontier"))[0]
        parts = await self._ask("status")
        now = self._now()
        return StoreStatus(
            settings=Settings(*frontier[:4]),
            signal=Signal(*frontier[4:6]),
            now=frontier[6] if now is None else now,
            partitions=[PartitionStatus(*part) for part in parts],
        )

    async def find(self, key_hash: bytes, lane_hash: bytes | None) -> Sequence[Found]:
        rows = await self._ask("find", {"key": key_hash, "lane": lane_hash, "ahead": AHEAD_LIMIT})
        return [_found(row) for row in rows]

    async def lane(self, partition: int, lane: str) -> LaneRow | None:
        rows = await self._ask("lane", {"partition": partition, "lane": lane})
        return _lane_status(rows[0]) if rows else None

    async def lanes(self, *, after: tuple[int, int] | None = None, limit: int = 100) -> Sequence[tuple[int, LaneRow]]:
        partition, number = after or (-1, 0)
        rows = await self._ask("lanes", {"partition": partition, "number": number, "limit": limit})
        return [(row[0], _lane_status(row[1:])) for row in rows]

    async def dead(self, *, after: tuple[int, int] | None = None, limit: int = 100) -> Sequence[DeadRow]:
        partition, position = after or (-1, 0)
        rows = await self._ask("dead", {"partition": partition, "position": position, "limit": limit})
        return [DeadRow(*row) for row in rows]

    async def pending(self, *, after: tuple[int, int] | None = None, limit: int = 100) -> Sequence[PendingRow]:
        partition, position = after or (-1, 0)
        rows = await self._ask("pending", {"partition": partition, "position": position, "limit": limit})
        return [PendingRow(*row) for row in rows]

    async def facts(self, keys: Sequence[str]) -> dict[str, str]:
        return dict(await self._ask("facts", {"keys": list(keys)}))

    async def outputs(self) -> dict[str, int]:
        return dict(await self._ask("outputs"))

    async def counters(self) -> dict[str, int]:
        raise NotImplementedError

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        raise NotImplementedError

    def explain_refusal(self, error: BaseException) -> str | None:
        return str(error) if isinstance(error, psycopg.IntegrityError | psycopg.DataError) else None

    async def recount(self) -> Sequence[PartitionStatus]:
        return [PartitionStatus(*row) for row in await self._ask("recount")]

    async def wait(self, seconds: float) -> None:
        self._connections.check_process()
        await self._listener.wait(seconds)

    # how

    def _now(self) -> int | None:
        """The seam for tests: null means the database's clock."""
        return None if self._clock is None else self._clock.now()

    def _statement(self, name: str, arguments: int) -> str:
        if name not in self._calls:
            self._calls[name] = self.target.fill(f"SELECT * FROM {{schema}}.{name}({', '.join(['%s'] * arguments)})")
        return self._calls[name]

    async def _call(self, name: str, *arguments: Any, doing: str) -> tuple[Any, ...]:
        """One move: one statement, one transaction."""
        statement = self._statement(name, len(arguments))
        (row,) = await self._run(
            statement, arguments, doing=doing, repeat=name != "claim", unsure=name in ("find_claim", "claimed_items")
        )
        return tuple(row)

    async def _ask(self, name: str, given: dict[str, Any] | None = None) -> list[Any]:
        return await self._run(self.target.fill(QUERIES[name]), given, doing="reading", repeat=True)

    async def _run(self, statement: str, given: Any, *, doing: str, repeat: bool, unsure: bool = False) -> list[Any]:
        """Send a statement, and once more when the connection broke in it or a deadlock ended it: each is safe to
        repeat, because what was applied is looked up by its number or its hash (rule 5). An idle connection may have
        been broken for long. While it is `unsure` whether something took effect, a lack of room does not say that it
        did not."""
        while True:
            try:
                async with self._connections.lend() as connection:
                    return await (await connection.execute(statement, given, binary=True)).fetchall()
            except psycopg.Error as error:
                failure = translate(error, self.target.shown, doing=doing)
                if unsure and isinstance(failure, StoreFull):
                    said = error.diag.message_primary
                    failure = StoreUnavailable(f"{self.target.shown} has no room left ({said}). Try again")
                if not repeat or not isinstance(failure, StoreUnavailable) or not passes_at_once(error):
                    raise failure from error
                repeat, unsure = False, True


async def _open(connection: AsyncConnection, target: Target, create: Settings | None) -> Settings:
    (encoding,) = await (await connection.execute("SHOW server_encoding")).fetchone() or ("unknown",)
    if encoding not in KEEP_ANY_TEXT:
        raise InvalidStoreURL(
            f"{target.shown}: this database has the encoding {encoding}, which cannot keep every key. "
            "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0 makes one that can"
        )
    found = await stored_format(connection, target)
    if found is None:
        if create is None:
            raise NotAFrontier(f"{target.shown} has no frontier in schema {target.schema}: `swath db init` makes one")
        await create_frontier(connection, target, create)
    elif found != FORMAT:
        raise wrong_format(found, target.shown)
    row = await (await connection.execute(target.fill(QUERIES["frontier"]))).fetchone()
    assert row is not None
    return Settings(*row[:4])


def _taken_items(
    partitions: Sequence[int],
    priorities: Sequence[int],
    counts: Sequence[int],
    positions: Sequence[int],
    lanes: Sequence[str],
    keys: Sequence[str],
    visits: Sequence[int],
    *others: Sequence[Any] | None,
) -> list[Item]:
    """Items of a claim, whose partitions and priorities come in runs, and what is usual not at all."""
    usual: tuple[Any, ...] = (None, 0, 0, 1, 0)
    payloads, attempts, losses, spans, besides = (
        [value] * len(keys) if column is None else column for column, value in zip(others, usual, strict=True)
    )
    partition = chain.from_iterable(map(repeat, partitions, counts))
    priority = chain.from_iterable(map(repeat, priorities, counts))
    in_flight = besides if len(set(lanes)) == len(lanes) else _counted_up(lanes, besides)
    return _items(partition, positions, lanes, priority, keys, payloads, attempts, spans, losses, visits, in_flight)


def _counted_up(lanes: Sequence[str], besides: Sequence[int]) -> Iterable[int]:
    """How many of its lane are in flight before each item: as many as before the first, and those of this claim."""
    for (_, beside), items in groupby(zip(lanes, besides, strict=True)):
        yield from range(beside, beside + sum(1 for _ in items))


def _items(
    partitions: Iterable[int],
    positions: Iterable[int],
    lanes: Iterable[str],
    priorities: Iterable[int],
    keys: Sequence[str],
    payloads: Iterable[str | None],
    attempts: Iterable[int],
    spans: Iterable[int],
    *others: Iterable[int],
) -> list[Item]:
    """Items from the arrays of a reply. They are many: Item(…) names its arguments first, at three times the cost."""
    not_before, no_counters = repeat(None, len(keys)), repeat(NO_COUNTERS, len(keys))
    columns = (
        keys,
        lanes,
        priorities,
        payloads,
        not_before,
        spans,
        attempts,
        *others,
        partitions,
        positions,
        no_counters,
    )
    return list(map(tuple.__new__, repeat(Item), zip(*columns, strict=True)))


def _columns(items: Sequence[EncodedItem]) -> tuple[str, ...]:
    """Items as the arrays that `take_in` takes."""
    if not items:
        return ("{}",) * 7
    _, hashes, lanes, priorities, keys, payloads, not_befores, spans = zip(*items, strict=True)
    return (
        bytes_array(hashes),
        text_array(lanes),
        number_array(priorities, default=DEFAULT_PRIORITY),
        text_array(keys),
        text_array(payloads),
        number_array(not_befores),
        number_array(spans, default=1),
    )


def _settlement(settlement: Settlement) -> tuple[Any, ...]:
    done, moves, done_kind = list[Move](), list[Move](), MoveKind.DONE
    for move in settlement.moves:
        (done if move.kind is done_kind and move.delay is None and move.started else moves).append(move)
    mine = [item for item in settlement.discovered if item.partition == settlement.partition]
    others = [item for item in settlement.discovered if item.partition != settlement.partition]
    return (
        settlement.number,
        number_array([move.position for move in done]),
        text_array([move.result for move in done]),
        number_array([move.position for move in moves]),
        number_array([move.kind.value for move in moves]),
        number_array([move.delay for move in moves]),
        text_array([move.result for move in moves]),
        text_array([move.reason for move in moves]),
        text_array([move.error for move in moves]),
        boolean_array([move.started for move in moves]),
        text_array([move.payload for move in moves]),
        *_rests(moves),
        *_columns(mine),
        number_array([item.partition for item in others]),
        *_columns(others),
        text_array([output.name for output in settlement.outputs]),
        number_array([output.old for output in settlement.outputs]),
        number_array([output.new for output in settlement.outputs]),
        *_facts(settlement.facts),
    )


def _facts(facts: Sequence[Fact]) -> tuple[str, str]:
    return text_array([fact.key for fact in facts]), text_array([fact.value for fact in facts])


def _rests(moves: Sequence[Move]) -> tuple[str, str, str]:
    rests = [move.rest for move in moves]
    if not any(rests):
        return "{}", "{}", "{}"
    return (
        bytes_array([rest and rest.hash for rest in rests]),
        text_array([rest and rest.key for rest in rests]),
        text_array([rest and rest.payload for rest in rests]),
    )


def _lane_status(row: tuple[Any, ...]) -> LaneRow:
    name, partition, min_interval, concurrency, paused, blocked_until, waiting, in_flight, visits, ready_at, last_at = (
        row
    )
    limits = LaneLimits(min_interval, concurrency, paused, blocked_until)
    return LaneRow(name, partition, limits, waiting, in_flight, visits, ready_at, last_at)


def _found(row: tuple[Any, ...]) -> Found:
    state, partition, position, *fields = row[:16]
    lane = None if row[16] is None else _lane_status(row[16:])  # an inbox has no lanes yet
    return Found(state, partition, position, lane, *fields)
