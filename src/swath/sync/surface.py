"""The async surface, called plainly. Made by scripts/make_sync.py: change its sources and run it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from swath import claim as claims
from swath import frontier as frontiers
from swath.core.check import CheckReport
from swath.core.clock import Clock
from swath.core.events import Observer
from swath.core.item import Item, Outcome
from swath.core.status import Explanation, Status
from swath.core.store import DeadRow, LaneRow, OutputMove, PendingRow
from swath.opening import open as opening
from swath.runner.output import Output
from swath.runner.run import Summary, Until
from swath.sync.portal import Portal


def open(
    url: str,
    *,
    partitions: int | None = None,
    min_interval: float | None = None,
    concurrency: int | None = None,
    max_attempts: int | None = None,
    create: bool = True,
    observer: Observer | None = None,
    worker: str | None = None,
    clock: Clock | None = None,
) -> "Frontier":
    """Open the frontier at `url` and create it if it is not there: `with swath.sync.open(url) as frontier`.

    `partitions` is fixed from then on; `min_interval`, `concurrency` and `max_attempts` are its defaults, and are
    changed when given for a frontier that exists. `clock` is for tests: it takes the place of the store's.
    """
    opened = opening(
        url,
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
        return Frontier(portal, portal.call(portal.opened(opened)))
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
    """Known but uncovered work. Made by `swath.sync.open`."""

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
        """Let go of the store. Claims that are not settled stay leased until their lease ends."""
        if not self._portal.closed:
            try:
                self._portal.call(self._frontier.close())
            finally:
                self._portal.close()

    def add(self, items: Item | str | Iterable[Item | str]) -> int:
        """Add items, given as one or as an iterable of any length; return how many were new.

        What was returned for is durable (INV-4). Memory stays bounded however many there are (INV-9). Where the
        connection broke while some were added, they are sent again, and not counted if they were in already.
        """
        return self._portal.add(self._frontier, items)

    def claim(self, limit: int = 100, *, lease: float = 60.0) -> Claim | None:
        """Lease up to `limit` ready items for `lease` seconds; None when nothing is ready."""
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

        What outcomes hand in as `output` is written by `output` and committed with their settlement (INV-5);
        without one, such an outcome is refused and its item retried.

        While the store cannot be reached it waits. A handler whose lease ends meanwhile is cancelled.

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
        """Start nothing more, of one lane or at all, until `resume`. What is under way goes on."""
        self._portal.call(self._frontier.pause(lane))

    def resume(self, lane: str | None = None) -> None:
        self._portal.call(self._frontier.resume(lane))

    def block(self, lane: str, *, until: datetime | float, at_least: bool = False) -> None:
        """Start nothing of a lane until a time, or for so many seconds; 0 lifts it. Where somebody has blocked it for
        longer, `at_least` leaves it so."""
        self._portal.call(self._frontier.block(lane, until=until, at_least=at_least))

    def limit(
        self, lane: str, *, min_interval: float | str | None = None, concurrency: int | str | None = None
    ) -> None:
        """Set a lane's own limits: seconds between items, items at once (0: any number). "default" goes back to the
        frontier's; what is not given stays."""
        self._portal.call(self._frontier.limit(lane, min_interval=min_interval, concurrency=concurrency))

    def configure(
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
        self._portal.call(
            self._frontier.configure(
                min_interval=min_interval, concurrency=concurrency, max_attempts=max_attempts, paused=paused
            )
        )

    def reopen(self, keys: Iterable[str], *, lane: str | None = None) -> int:
        """Make done or dead items ready again, by one key or several, and reset their attempts; return their number.

        An item that is scheduled for another visit keeps its time. If the connection breaks in between, the number may
        be too low, as with `add`.
        """
        wanted = keys if isinstance(keys, str) else list(keys)
        return self._portal.call(self._frontier.reopen(wanted, lane=lane))

    def reopen_dead(
        self, keys: Iterable[str] | None = None, *, lane: str | None = None, reason: str | None = None
    ) -> int:
        """Make dead items ready again: those with these keys or all, of one lane or of any, and with `reason` only
        those whose reason contains that text. Return their number."""
        return self._portal.call(self._frontier.reopen_dead(keys, lane=lane, reason=reason))

    def learn(self, facts: Mapping[str, Any]) -> None:
        """Keep what a job knows, by key, for everybody who works on the frontier; what was known before gives way."""
        self._portal.call(self._frontier.learn(facts))

    def facts(self, keys: Iterable[str]) -> dict[str, Any]:
        """What is known of these keys."""
        wanted = keys if isinstance(keys, str) else list(keys)
        return self._portal.call(self._frontier.facts(wanted))

    def outputs(self) -> dict[str, int]:
        """The committed length of every output file: what an `Output` restores its own to before a run."""
        return self._portal.call(self._frontier.outputs())

    def status(self) -> Status:
        """Exact counters and checkpoints, in a time that grows with the partitions only."""
        return self._portal.call(self._frontier.status())

    def check(self) -> CheckReport:
        """Count every row and compare the result with the counters and checkpoints that the store keeps.

        This takes longer the larger the frontier is. Partitions that other processes change are counted again, up to
        five times, and then skipped: pause the frontier to check all of them.
        """
        return self._portal.call(self._frontier.check())

    def explain(self, key: str, *, lane: str | None = None) -> Explanation:
        """Where a key is, and why it is not being worked on."""
        return self._portal.call(self._frontier.explain(key, lane=lane))

    def lane(self, lane: str) -> LaneRow | None:
        """A lane's limits and counters; None when there is no such lane."""
        return self._portal.call(self._frontier.lane(lane))

    def lanes(self) -> Iterator[LaneRow]:
        """Every lane, page by page."""
        return self._portal.iterate(self._frontier.lanes())

    def dead(self) -> Iterator[DeadRow]:
        """Every dead item, page by page."""
        return self._portal.iterate(self._frontier.dead())

    def pending(self) -> Iterator[PendingRow]:
        """Every item that is ready, delayed or claimed and holds the checkpoint back, page by page."""
        return self._portal.iterate(self._frontier.pending())
