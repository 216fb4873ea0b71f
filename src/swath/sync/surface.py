"""The async surface, called plainly. Made by scripts/make_sync.py: change its sources and run it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self

from swath import claim as claims
from swath import frontier as frontiers
from swath.backends.registry import open as open_async
from swath.backends.registry import suggest_options
from swath.core.check import CheckReport
from swath.core.clock import Clock
from swath.core.events import Observer
from swath.core.inspection import DeadItem, LaneInfo, PendingItem
from swath.core.item import UNCHANGED, Item, Outcome, Unchanged
from swath.core.status import Explanation, Status
from swath.core.store import EncodedItem, OutputMove, Store
from swath.frontier import NewItem
from swath.runner.output import Output
from swath.runner.run import Summary, Until
from swath.sync.portal import Portal


@suggest_options
def open(
    url: str | None = None,
    *,
    store: Store | None = None,
    partitions: int | None = None,
    min_interval: float | None = None,
    concurrency: int | Unchanged | None = UNCHANGED,
    max_attempts: int | None = None,
    create: bool = True,
    observer: Observer | None = None,
    worker: str | None = None,
    clock: Clock | None = None,
) -> "Frontier":
    """Open the frontier at `url`, and create it if it does not exist: `with swath.sync.open(url) as frontier`.

    Pass `store` instead of a URL to use a Store that you have opened; closing the frontier closes it.

    `partitions` is fixed when the frontier is created. `min_interval`, `concurrency` (None: unlimited) and
    `max_attempts` are the defaults of the frontier; if it exists already, those that you pass are changed.
    `create=False` raises NotAFrontier if the frontier does not exist. `observer` receives every event, and `worker`
    is the name that claims carry. `clock` replaces the store's clock in tests.
    """
    opening = open_async(
        url,
        store=store,
        partitions=partitions,
        min_interval=min_interval,
        concurrency=concurrency,
        max_attempts=max_attempts,
        create=create,
        observer=observer,
        worker=worker,
        clock=clock,
    )
    portal = Portal()
    try:
        return Frontier(portal, portal.call(portal.open(opening)))
    except BaseException:
        portal.close()
        raise


class Claim:
    """A batch of items, leased to one worker until `expires_at`. Only its holder can settle or renew it (INV-2)."""

    def __init__(self, portal: Portal, claim: claims.Claim) -> None:
        self._portal = portal
        self._claim = claim

    def __repr__(self) -> str:
        return f"<swath.sync of {self._claim!r}>"

    @property
    def items(self) -> Sequence[Item]:
        """All items of the claim, settled or not."""
        return self._claim.items

    @property
    def fence(self) -> int:
        """The claim's number. It rises with every claim of the frontier."""
        return self._claim.fence

    @property
    def expires_at(self) -> datetime:
        """When the lease ends, on the store's clock."""
        return self._claim.expires_at

    @property
    def seconds_left(self) -> float:
        """Seconds until the lease ends, on a clock that keeps running while the machine sleeps; negative afterwards."""
        return self._claim.seconds_left

    @property
    def partitions(self) -> Sequence[int]:
        """The partitions that the unsettled items belong to."""
        return self._claim.partitions

    @property
    def remaining(self) -> int:
        """The number of items that are not settled yet."""
        return self._claim.remaining

    def renew(self, *, lease: float | None = None) -> None:
        """Make the lease end `lease` seconds from now, or as many as before if `lease` is not given."""
        self._portal.call(self._claim.renew(lease=lease))

    def settle(
        self, outcomes: Iterable[Outcome], *, connection: Any = None, outputs: Sequence[OutputMove] = ()
    ) -> None:
        """Commit the outcomes of all or some of the items.

        The outcomes of each partition commit together with the items that they discovered (INV-5). With `connection`,
        an open psycopg or sqlite3 transaction on the frontier's database, everything commits with your own writes:
        make this call the last statement before the commit.

        After StoreUnavailable, or if the call was interrupted, it is not known whether the outcomes took effect. Call
        again with the same outcomes: those that the store has committed stay as they are. After any other error, the
        outcomes of some partitions may have been committed; you may hand them in again with the others.
        """
        settlement = self._claim.settle(list(outcomes), connection=connection, outputs=outputs)
        if connection is None:
            self._portal.call(settlement)
        else:
            self._portal.step(settlement)


class Frontier:
    """The work that is known but not done. `swath.sync.open` returns it."""

    def __init__(self, portal: Portal, frontier: frontiers.Frontier) -> None:
        self._portal = portal
        self._frontier = frontier

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<swath.sync of {self._frontier!r}>"

    @property
    def worker(self) -> str:
        """The name under which this process claims items."""
        return self._frontier.worker

    def close(self) -> None:
        """Close the store. Items of unsettled claims become ready again when their lease expires."""
        if not self._portal.closed:
            try:
                self._portal.call(self._frontier.close())
            finally:
                self._portal.close()

    def add(self, items: NewItem | Iterable[NewItem]) -> int:
        """Add one item or an iterable of items, of any length; return how many were new.

        Items are durable when `add` returns (INV-4). Memory stays bounded (INV-9). If the connection breaks, items
        are sent again, and those that had arrived are then not counted as new.
        """
        return self._portal.add(self._frontier, items)

    def encode(self, items: NewItem | Iterable[NewItem], *, drop_known: bool = True) -> list[EncodedItem]:
        """Check and encode items, and leave out those that this process knows the store to hold.

        `add` and `item.done(discovered=…)` take the result. Use it if many of your items were added before, or to
        check items without adding them.
        """
        several = items if isinstance(items, Item | EncodedItem | str) else list(items)
        return self._portal.call(self._portal.encode(self._frontier, several, drop_known))

    def knows(self, item_hash: bytes) -> bool:
        """Return whether this process knows the store to hold an item, by `EncodedItem.hash`.

        False if in doubt: the process remembers the last 100,000 items or more that were confirmed to it.
        """
        return self._frontier.knows(item_hash)

    def claim(self, limit: int = 100, *, lease: float = 60.0) -> Claim | None:
        """Lease up to `limit` ready items for `lease` seconds; return None if nothing is ready."""
        claim = self._portal.call(self._frontier.claim(limit, lease=lease))
        return None if claim is None else Claim(self._portal, claim)

    def run(
        self,
        handler: Callable[[Item], Outcome | None],
        *,
        workers: int = 100,
        lease: float = 60.0,
        timeout: float | None = None,
        grace: float = 10.0,
        until: Until = "done",
        output: Output | None = None,
        handle_signals: bool = True,
    ) -> Summary:
        """Run `handler` on the items of the frontier, up to `workers` at once, and return what became of them.

        The handler returns an outcome, such as `item.retry(after=60, reason="busy")`; None means `item.done()`. If it
        raises an exception, or takes longer than `timeout` seconds, the item is retried. The runner renews leases of
        `lease` seconds while a handler runs; if this process dies, other workers get its items when they expire.

        `until="done"` ends the run when no item is left: delayed items, revisits and items of other workers count.
        `until="idle"` ends it as soon as nothing can be started and nothing of this run is in flight.
        `until="stopped"` keeps it running until it is stopped.

        SIGINT and SIGTERM stop the run cleanly. It starts nothing more and releases the items that it claimed ahead.
        Handlers have `grace` seconds to finish; then they are cancelled and their items released. The run ends at most
        5 seconds after the grace. A second signal ends it at once, with KeyboardInterrupt (SIGINT) or SystemExit
        (SIGTERM); other workers get its items when their leases expire. `handle_signals=False` leaves signals alone,
        and so does a run outside the main thread.

        `output` writes what outcomes pass as `output=`; the length of its files commits with the settlement (INV-5).
        Without `output`, such an outcome is refused and its item retried.

        While the store is unavailable the run waits. If a lease expires meanwhile, its handler is cancelled.

        The handler is a plain function, called in up to `workers` threads. A function that runs cannot be cancelled:
        past its time limit, or its lease, it goes on to its end and only then makes room for another; at a stop it is
        left behind after the grace.

        It takes no `transaction`: to commit writes of your own with an outcome, claim and settle by hand, with
        `claim.settle(…, connection=…)`.
        """
        return self._portal.run(
            self._frontier,
            handler,
            workers=workers,
            lease=lease,
            timeout=timeout,
            grace=grace,
            until=until,
            output=output,
            handle_signals=handle_signals,
        )

    def pause(self, lane: str | None = None) -> None:
        """Start no more items of a lane, or of the whole frontier, until `resume`. Items in flight continue."""
        self._portal.call(self._frontier.pause(lane))

    def resume(self, lane: str | None = None) -> None:
        """End the pause of a lane or of the whole frontier."""
        self._portal.call(self._frontier.resume(lane))

    def block(
        self, lane: str, *, until: datetime | None = None, seconds: float | None = None, at_least: bool = False
    ) -> None:
        """Start no items of a lane until a time, or for a number of seconds; `seconds=0` ends the block.

        With `at_least`, a block that already lasts longer stays as it is.
        """
        self._portal.call(self._frontier.block(lane, until=until, seconds=seconds, at_least=at_least))

    def limit(
        self,
        lane: str,
        *,
        min_interval: float | Literal["default"] | Unchanged = UNCHANGED,
        concurrency: int | Literal["default"] | Unchanged | None = UNCHANGED,
    ) -> None:
        """Set the limits of one lane: seconds between two starts, and items in flight (None: unlimited).

        "default" goes back to the default of the frontier. What you leave out stays as it is.
        """
        self._portal.call(self._frontier.limit(lane, min_interval=min_interval, concurrency=concurrency))

    def configure(
        self,
        *,
        min_interval: float | None = None,
        concurrency: int | Unchanged | None = UNCHANGED,
        max_attempts: int | None = None,
        paused: bool | None = None,
    ) -> None:
        """Change the defaults of the frontier, for every process that works on it. What you leave out stays as it is.

        `concurrency=None` means unlimited. If the new defaults allow more than the old ones, lanes that wait are
        rescheduled one by one, which takes a while if there are many. If that is interrupted, call again with the same
        values to finish it.
        """
        self._portal.call(
            self._frontier.configure(
                min_interval=min_interval, concurrency=concurrency, max_attempts=max_attempts, paused=paused
            )
        )

    def reopen(self, keys: str | Iterable[str], *, lane: str | None = None) -> int:
        """Make done or dead items ready again by key, with their attempts reset; return how many.

        An item that waits for its revisit is not changed. If the connection breaks meanwhile, the number may be too
        small, as with `add`.
        """
        wanted = keys if isinstance(keys, str) else list(keys)
        return self._portal.call(self._frontier.reopen(wanted, lane=lane))

    def reopen_dead(
        self, keys: str | Iterable[str] | None = None, *, lane: str | None = None, reason: str | None = None
    ) -> int:
        """Make dead items ready again; return how many.

        Choose them by key, by lane, by text that their reason contains, or by several of these; all if none is given.
        """
        wanted = keys if keys is None or isinstance(keys, str) else list(keys)
        return self._portal.call(self._frontier.reopen_dead(wanted, lane=lane, reason=reason))

    def learn(self, facts: Mapping[str, Any]) -> None:
        """Store facts by key, for every process that works on the frontier. A newer value replaces the older one."""
        self._portal.call(self._frontier.learn(facts))

    def facts(self, keys: str | Iterable[str]) -> dict[str, Any]:
        """Return the facts with these keys; a key without a fact is left out."""
        wanted = keys if isinstance(keys, str) else list(keys)
        return self._portal.call(self._frontier.facts(wanted))

    def outputs(self) -> dict[str, int]:
        """Return the committed length of every output file. An `Output` truncates its files to it before a run."""
        return self._portal.call(self._frontier.outputs())

    def counters(self) -> dict[str, int]:
        """Return the counters of the frontier: the sums of what outcomes passed as `counters=`."""
        return self._portal.call(self._frontier.counters())

    def status(self) -> Status:
        """Return exact counts and checkpoints, in a time that depends only on the number of partitions."""
        return self._portal.call(self._frontier.status())

    def check(self) -> CheckReport:
        """Count every row and compare the result with the counters and checkpoints that the store keeps.

        This takes longer the larger the frontier is. Partitions that other processes change are counted again, up to
        five times, and then skipped: pause the frontier to check all of them.
        """
        return self._portal.call(self._frontier.check())

    def explain(self, key: str, *, lane: str | None = None) -> Explanation:
        """Return where a key is, and why it is not being worked on."""
        return self._portal.call(self._frontier.explain(key, lane=lane))

    def lane(self, lane: str) -> LaneInfo | None:
        """Return the limits, the state and the counters of a lane; None if there is no such lane."""
        return self._portal.call(self._frontier.lane(lane))

    def lanes(self) -> Iterator[LaneInfo]:
        """Iterate over all lanes, page by page."""
        return self._portal.iterate(self._frontier.lanes())

    def dead(self) -> Iterator[DeadItem]:
        """Iterate over all dead items, page by page."""
        return self._portal.iterate(self._frontier.dead())

    def pending(self) -> Iterator[PendingItem]:
        """Iterate over the items that hold the checkpoint back, page by page: ready, delayed or claimed ones.

        Items that were done and wait for their revisit are not among them.
        """
        return self._portal.iterate(self._frontier.pending())
