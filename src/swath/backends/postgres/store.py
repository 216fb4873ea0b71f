"""PostgresStore: each method calls the stored function, or runs the query, with the same name."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from swath.backends.postgres.arguments import write_facts, write_items, write_settlement
from swath.backends.postgres.array_literals import number_array
from swath.backends.postgres.calls import Calls
from swath.backends.postgres.connections import AsyncConnection, Connections, connect
from swath.backends.postgres.errors import can_repeat, translate_error, translate_errors
from swath.backends.postgres.format import FORMAT, build_format_error
from swath.backends.postgres.function_sets import ensure_installed
from swath.backends.postgres.location import PostgresLocation
from swath.backends.postgres.migration import create as create_frontier
from swath.backends.postgres.migration import read_format
from swath.backends.postgres.notify import Listener
from swath.backends.postgres.replies import (
    ClaimedItemsRow,
    ClaimReplyRow,
    FoundClaimRow,
    SettleReplyRow,
    read_claimed,
    read_claimed_items,
    read_counters,
)
from swath.backends.postgres.statements import QUERIES
from swath.core.clock import Clock
from swath.core.errors import InvalidStoreURL, NotAFrontier, StoreFull, StoreUnavailable, WrongTransaction
from swath.core.item import Item
from swath.core.lane import LaneLimits
from swath.core.store import (
    AHEAD_LIMIT,
    DELAYED_DRAIN,
    INBOX_DRAIN,
    LISTING_START,
    MAX_EXAMINED,
    PARTITIONS_PER_CLAIM,
    AuditChange,
    AuditRow,
    ClaimRef,
    ClaimReply,
    ClaimRequest,
    ClaimRow,
    ClockReading,
    Cursor,
    EncodedItem,
    Fact,
    Found,
    ItemRow,
    KnownPlace,
    LaneChange,
    LaneRow,
    PartitionStatus,
    RowPage,
    Settings,
    Settlement,
    SettleReply,
    Signal,
    StoreStatus,
)

log = logging.getLogger("swath")

CONCURRENT_ADDS = 3  # connections that one `add` uses
ENCODINGS = ("UTF8", "SQL_ASCII")  # the latter stores UTF-8 unchanged


class PostgresStore:
    """A frontier in a schema of a PostgreSQL database."""

    def __init__(
        self, location: PostgresLocation, settings: Settings, *, clock: Clock | None, connections: Connections
    ) -> None:
        self.settings = settings
        self.location = location
        self._clock = clock
        self._connections = connections
        self._calls = Calls(location, connections)
        self._listener = Listener(location)
        self._versions: dict[int, int] = {}  # the highest version seen of each partition
        self._rewound = 0
        self._doubtful: set[int] = set()  # tokens of claims whose reply was lost

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
        """Open the frontier at `url`. If it does not exist, create it with `settings`."""
        location = PostgresLocation.parse(url)
        connections = connections or Connections(lambda: connect(location.dsn))
        try:
            with translate_errors(location.display_url, doing="opening"):
                async with connections.lend() as connection:
                    stored = await _open(connection, location, settings if create else None)
        except BaseException:
            await connections.close()
            raise
        return cls(location, stored, clock=clock, connections=connections)

    async def close(self) -> None:
        if self._connections.is_inherited:
            return  # the connections belong to the parent process
        await self._listener.close()
        await self._connections.close()

    # Work on items

    async def add(self, items: Sequence[EncodedItem]) -> int:
        # Add to several partitions concurrently, because half of the time of an add is waiting for the disk.
        parts = defaultdict[int, list[EncodedItem]](list)
        for item in items:
            parts[item.partition].append(item)
        left = iter(sorted(parts.items()))

        async def add_partitions() -> int:
            added = 0
            for partition, mine in left:
                row = await self._calls.call("add", FORMAT, self._now(), partition, *write_items(mine), doing="adding")
                added += row[0]
            return added

        tasks = min(CONCURRENT_ADDS, len(parts))
        outcomes = await asyncio.gather(*(add_partitions() for _ in range(tasks)), return_exceptions=True)
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
        if request.token in self._doubtful:
            return await self._find_claim(request)
        before = dict(self._versions)
        try:
            reply = await self._calls.call(
                "claim",
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
                doing="claiming",
            )
        except StoreUnavailable as failure:
            if isinstance(failure.__cause__, psycopg.Error) and not can_repeat(failure.__cause__):
                raise  # the server refused the claim, so there is nothing to look up
            self._doubtful.add(request.token)
            return await self._find_claim(request)
        except asyncio.CancelledError:
            self._doubtful.add(request.token)
            raise
        row = ClaimReplyRow._make(reply)
        self._compare_versions(row.versions, before)
        if not row.fence:
            items = []
        elif row.partitions is not None:
            items = read_claimed(row)
        else:
            items = await self._read_claimed_items(request.token, row.fence)
        self.settings = self.settings._replace(
            min_interval=row.min_interval, concurrency=row.concurrency, max_attempts=row.max_attempts
        )
        return ClaimReply(
            now=row.now,
            fence=row.fence,
            items=items,
            expires_at=row.expires_at or row.now,
            next_ready_at=row.next_ready_at,
            skipped=row.skipped,
            recovered=row.recovered,
            died=row.died,
            starts_count=row.starts_count,
            signal=Signal(row.paused, row.signal_version),
        )

    async def _find_claim(self, request: ClaimRequest) -> ClaimReply:
        """Look up a claim whose reply was lost: it may or may not have been made."""
        row = FoundClaimRow._make(
            await self._calls.call(
                "find_claim", FORMAT, self._now(), request.token, request.lease, doing="looking for a claim"
            )
        )
        self._doubtful.discard(request.token)
        items = await self._read_claimed_items(request.token, row.fence) if row.fence else []
        signal = Signal(row.paused, row.signal_version)
        return ClaimReply(row.now, row.fence, items, row.expires_at or row.now, row.now, (), 0, 0, True, signal)

    async def _read_claimed_items(self, token: int, fence: int) -> list[Item]:
        """Read the items of a claim that did not come with its reply."""
        self._doubtful.add(token)  # in doubt until its items are read
        row = await self._calls.call("claimed_items", fence, doing="reading a claim")
        self._doubtful.discard(token)
        return read_claimed_items(ClaimedItemsRow._make(row))

    def _compare_versions(self, pairs: Sequence[int], before: Mapping[int, int]) -> None:
        """Detect that the database was restored or failed over: the version of a partition is lower than before.

        Compare with the versions known before the claim was sent, because replies to concurrent claims may arrive in
        another order.
        """
        found = dict(zip(pairs[::2], pairs[1::2], strict=True))
        if any(version < before.get(partition, 0) for partition, version in found.items()):
            log.warning("%s is in an earlier state: was it restored or failed over?", self.location.display_url)
            self._rewound += 1
            self._versions.clear()
        for partition, version in found.items():
            self._versions[partition] = max(version, self._versions.get(partition, 0))

    @property
    def generation(self) -> int:
        return self._connections.broken + self._rewound

    async def renew(self, claim: ClaimRef, lease: int) -> int:
        row = await self._calls.call(
            "renew", FORMAT, self._now(), claim.fence, claim.token, lease, doing=f"renewing claim {claim.fence}"
        )
        return int(row[0])

    async def settle(self, claim: ClaimRef, settlement: Settlement, *, connection: Any = None) -> SettleReply:
        arguments = (FORMAT, self._now(), settlement.partition, claim.fence, claim.token, *write_settlement(settlement))
        doing = f"settling claim {claim.fence} on partition {settlement.partition}"
        if connection is not None:
            reply = await self._settle_on(connection, arguments, doing)
        else:
            reply = await self._calls.call("settle", *arguments, doing=doing)
            self._listener.wake()
        row = SettleReplyRow._make(reply)
        return SettleReply(row.now, row.discovered, row.checkpoint)

    async def _settle_on(self, connection: Any, arguments: tuple[Any, ...], doing: str) -> tuple[Any, ...]:
        """Settle inside the caller's transaction. After an error, PostgreSQL allows only a rollback."""
        if not isinstance(connection, psycopg.AsyncConnection | psycopg.Connection):
            raise WrongTransaction(f"{doing}: connection= takes a psycopg connection, not {type(connection).__name__}")
        status = connection.info.transaction_status
        if status == TransactionStatus.INERROR:
            raise WrongTransaction(f"{doing}: an earlier statement of the transaction failed: roll it back")
        # Without autocommit, psycopg begins a transaction with the first statement, which may be this one.
        if status != TransactionStatus.INTRANS and (status != TransactionStatus.IDLE or connection.autocommit):
            raise WrongTransaction(
                f"{doing}: the connection has no open transaction ({status.name}): "
                "settle inside `with connection.transaction():`"
            )
        statement = self._calls.build_statement("settle", len(arguments))
        elsewhere = f"{doing}: {connection.info.dbname!r}, the database of this connection, does not hold the frontier"
        cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]
        try:
            with translate_errors(self.location.display_url, doing=doing, elsewhere=elsewhere):
                # Our own cursor classes: the connection's cursor_factory may expect other placeholders.
                if isinstance(connection, psycopg.Connection):
                    cursor = psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row)
                    row = cursor.execute(statement, arguments).fetchone()
                else:
                    cursor = psycopg.AsyncCursor(connection, row_factory=psycopg.rows.tuple_row)
                    row = await (await cursor.execute(statement, arguments)).fetchone()
        except UnicodeEncodeError as error:
            raise WrongTransaction(
                f"{doing}: {connection.info.encoding}, the encoding of this connection, cannot encode "
                f"{error.object[error.start : error.end]!r:.40}: connect with client_encoding=UTF8"
            ) from error
        self._calls.check_columns("settle", cursor.description)  # before the caller commits
        assert row is not None
        return tuple(row)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        try:
            async with self._connections.lend() as connection, connection.transaction():
                yield connection
        except psycopg.Error as error:
            failure = translate_error(error, self.location.display_url, doing="in a transaction")
            if isinstance(failure, StoreUnavailable | StoreFull):
                raise failure from error
            raise
        self._listener.wake()

    def explain_refusal(self, error: BaseException) -> str | None:
        return str(error) if isinstance(error, psycopg.IntegrityError | psycopg.DataError) else None

    # Change settings and lanes

    async def change_lane(self, partition: int, lane: str, change: LaneChange) -> None:
        await self._calls.call(
            "change_lane", FORMAT, self._now(), partition, lane, *change, doing=f"changing lane {lane}"
        )
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
        await self._calls.call("change_settings", FORMAT, self._now(), *values, doing="changing settings")
        self.settings = (await self.status()).settings
        self._listener.wake()

    async def requeue_lanes(self, partition: int, numbers: Sequence[int]) -> None:
        given = (partition, number_array(numbers))
        await self._calls.call("requeue_lanes", FORMAT, self._now(), *given, doing="requeueing lanes")
        self._listener.wake()

    async def reopen(self, places: Sequence[tuple[int, int]]) -> int:
        reopened = 0
        for partition in sorted({partition for partition, _ in places}):
            positions = number_array([position for number, position in places if number == partition])
            row = await self._calls.call("reopen", FORMAT, self._now(), partition, positions, doing="re-opening")
            reopened += row[0]
        self._listener.wake()
        return reopened

    async def repair(self, settlement: Settlement) -> SettleReply:
        """Call `settle` without a claim. It is not repeated: the second time, the items would not be dead."""
        moves = [move._replace(started=False) for move in settlement.moves]  # so that `repair` gets all of them
        arguments = write_settlement(settlement._replace(moves=moves))
        doing = f"repairing items of partition {settlement.partition}"
        reply = await self._calls.call(
            "settle", FORMAT, self._now(), settlement.partition, None, None, *arguments, doing=doing, repeat=False
        )
        self._listener.wake()
        row = SettleReplyRow._make(reply)
        return SettleReply(row.now, row.discovered, row.checkpoint)

    async def drop(self, places: Sequence[tuple[int, int]], result: str | None) -> int:
        dropped = 0
        for partition in sorted({partition for partition, _ in places}):
            positions = number_array(list({position for number, position in places if number == partition}))
            row = await self._calls.call("drop", FORMAT, self._now(), partition, positions, result, doing="dropping")
            dropped += row[0]
        self._listener.wake()
        return dropped

    async def empty_inbox(self, partition: int) -> None:
        more = True
        while more:
            row = await self._calls.call(
                "empty_inbox", FORMAT, self._now(), partition, INBOX_DRAIN, doing="emptying an inbox"
            )
            more = row[0]
        self._listener.wake()

    async def audit_change(self, change: AuditChange) -> None:
        await self._calls.call("audit_change", FORMAT, self._now(), *change, doing="recording a change")

    async def learn(self, facts: Sequence[Fact]) -> None:
        await self._calls.call(
            "learn", FORMAT, *write_facts(list({fact.key: fact for fact in facts}.values())), doing="learning"
        )

    # Read

    async def signal(self) -> Signal:
        rows = await self._calls.query("signal")
        return Signal(*rows[0])

    async def read_clock(self) -> ClockReading:
        """Return the database's time twice: a server has no other clock."""
        now = self._now()
        if now is None:
            ((now,),) = await self._calls.query("clock")
        return ClockReading(now, now)

    async def status(self) -> StoreStatus:
        frontier = (await self._calls.query("frontier"))[0]
        parts = await self._calls.query("status")
        now = self._now()
        return StoreStatus(
            settings=Settings(*frontier[:4]),
            signal=Signal(*frontier[4:6]),
            now=frontier[6] if now is None else now,
            partitions=[PartitionStatus(*part) for part in parts],
        )

    async def find(self, key_hash: bytes, lane_hash: bytes | None) -> Sequence[Found]:
        rows = await self._calls.query("find", {"key": key_hash, "lane": lane_hash, "ahead": AHEAD_LIMIT})
        return [_build_found(row) for row in rows]

    async def lane(self, partition: int, lane: str) -> LaneRow | None:
        rows = await self._calls.query("lane", {"partition": partition, "lane": lane})
        return _build_lane_row(rows[0]) if rows else None

    async def lanes(self, *, after: tuple[int, int] | None = None, limit: int = 100) -> Sequence[tuple[int, LaneRow]]:
        partition, number = after or (-1, 0)
        rows = await self._calls.query("lanes", {"partition": partition, "number": number, "limit": limit})
        return [(row[0], _build_lane_row(row[1:])) for row in rows]

    async def items(
        self,
        state: str,
        *,
        lane: tuple[int, str] | None = None,
        result_text: str | None = None,
        after: Cursor | None = None,
        limit: int = 100,
    ) -> RowPage:
        partition, first, second = after or LISTING_START
        query = f"list_{state}"
        where: dict[str, Any] = {"last_partition": self.settings.partitions, "lane": None, "result_text": result_text}
        if lane is not None:
            where["last_partition"], where["lane"] = lane
            partition, first, second = max((partition, first, second), (lane[0], *LISTING_START[1:]))
            query = "list_ready_of_lane" if state == "ready" else query
        examined = MAX_EXAMINED if lane is not None or result_text is not None else min(limit, MAX_EXAMINED)
        where |= {"partition": partition, "first": first, "second": second, "examined": examined, "limit": limit}
        return RowPage.build(await self._calls.query(query, where, by_index=True), limit, examined)

    async def claims(self, *, after: int = 0, limit: int = 100) -> Sequence[ClaimRow]:
        rows = await self._calls.query("claims", {"after": after, "limit": limit}, by_index=True)
        return [ClaimRow(*row) for row in rows]

    async def pending(
        self, *, after: tuple[int, int] | None = None, limit: int = 100, revisits: bool = False
    ) -> Sequence[ItemRow]:
        partition, position = after or (-1, 0)
        where = {"partition": partition, "position": position, "limit": limit, "revisits": revisits}
        return [ItemRow(*row) for row in await self._calls.query("pending", where)]

    async def known_places(self, *, after: tuple[int, bytes] = (-1, b""), limit: int = 100) -> Sequence[KnownPlace]:
        where = {"partition": after[0], "hash": after[1], "limit": limit}
        rows = await self._calls.query("known_places", where, by_index=True)
        return [KnownPlace.build(row) for row in rows]

    async def find_positions(self, partition: int, hashes: Sequence[bytes]) -> Sequence[int | None]:
        where = {"partition": partition, "hashes": list(hashes)}
        return [position for (position,) in await self._calls.query("find_positions", where, by_index=True)]

    async def date_positions(self, places: Sequence[tuple[int, int]]) -> Sequence[int]:
        partitions, positions = [partition for partition, _ in places], [position for _, position in places]
        where = {"partitions": partitions, "positions": positions}
        return [time for (time,) in await self._calls.query("date_positions", where)]

    async def audit(self, *, limit: int = 100) -> Sequence[AuditRow]:
        return [AuditRow(*row) for row in await self._calls.query("audit", {"limit": limit})]

    async def facts(self, keys: Sequence[str]) -> dict[str, str]:
        return dict(await self._calls.query("facts", {"keys": list(keys)}))

    async def outputs(self) -> dict[str, int]:
        return dict(await self._calls.query("outputs"))

    async def counters(self) -> dict[str, int]:
        return dict(await self._calls.query("counters"))

    async def recount(self) -> Sequence[PartitionStatus]:
        return [PartitionStatus(*row) for row in await self._calls.query("recount")]

    async def wait(self, seconds: float) -> None:
        self._connections.check_process()
        await self._listener.wait(seconds)

    def _now(self) -> int | None:
        """Return the time of the test's clock, or None: the functions then read the database's clock."""
        return None if self._clock is None else self._clock.now()


async def _open(connection: AsyncConnection, location: PostgresLocation, create: Settings | None) -> Settings:
    (encoding,) = await (await connection.execute("SHOW server_encoding")).fetchone() or ("unknown",)
    if encoding not in ENCODINGS:
        raise InvalidStoreURL(
            f"{location.display_url}: this database has the encoding {encoding}, which cannot keep every key. "
            "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0 makes one that can"
        )
    found = await read_format(connection, location)
    if found is None:
        if create is None:
            raise NotAFrontier(
                f"{location.display_url} has no frontier in schema {location.schema}: `swath db init` makes one"
            )
        await create_frontier(connection, location, create)
    elif found != FORMAT:
        raise build_format_error(found, location.display_url)
    else:
        await ensure_installed(connection, location)
    row = await (await connection.execute(location.fill(QUERIES["frontier"]))).fetchone()
    assert row is not None
    return Settings(*row[:4])


def _build_lane_row(row: tuple[Any, ...]) -> LaneRow:
    name, partition, min_interval, concurrency, paused, blocked_until, *rest = row
    waiting, in_flight, visits, ready_at, last_at, counters = rest
    limits = LaneLimits(min_interval, concurrency, paused, blocked_until)
    return LaneRow(name, partition, limits, waiting, in_flight, visits, ready_at, last_at, read_counters(counters))


def _build_found(row: tuple[Any, ...]) -> Found:
    state, partition, position, *fields = row[:16]
    lane = None if row[16] is None else _build_lane_row(row[16:])  # an item in an inbox has no lane yet
    return Found(state, partition, position, lane, *fields)
