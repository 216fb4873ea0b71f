"""Session: one process's use of one store.

`Frontier`, `Claim` and the runner share it. It carries what they have in common: the store, the worker's name, the
observer, the keys that the store is known to hold, and a watch on the store's clock.
"""

import getpass
import logging
import os
import secrets
import socket
from collections.abc import Iterable, Sequence
from operator import attrgetter
from time import perf_counter

from swath.core import events
from swath.core.clock import SECOND, lease_clock
from swath.core.known_keys import KnownKeys
from swath.core.store import ADD_CHUNK, EncodedItem, Store

log = logging.getLogger("swath")

CLOCK_TOLERANCE = 5.0  # seconds; a step of the store's clock ahead of this machine's clock is reported if it is larger


class Session:
    """A store, and what this process knows about it."""

    def __init__(self, store: Store, *, observer: events.Observer | None = None, worker: str | None = None) -> None:
        self.store = store
        self.worker = worker or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self.actor = f"{_read_user()}@{socket.gethostname()}"
        self.known_keys = KnownKeys()
        self._generation = store.generation
        self._observer = observer
        self._clocks: tuple[float, float] | None = None  # this machine's clock and the store's at the last reply
        self._latest_store_time = 0.0

    @property
    def is_observed(self) -> bool:
        """Return whether there is an observer. Without one, events of single items are not built."""
        return self._observer is not None

    def emit(self, event: events.Event) -> None:
        """Pass an event to the observer. An observer must not change what happens, so its exceptions are logged."""
        if self._observer is None:
            return
        try:
            self._observer(event)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # even CancelledError
            log.exception("the observer raised an exception for %r", event)

    async def add(self, items: Iterable[EncodedItem]) -> int:
        """Add encoded items and return how many were new.

        The items are sorted by partition, so that each chunk locks few partitions.
        """
        offered = sorted(self.drop_known(items), key=attrgetter("partition"))
        added = 0
        for start in range(0, len(offered), ADD_CHUNK):
            chunk = offered[start : start + ADD_CHUNK]
            began = perf_counter()
            new = await self.store.add(chunk)
            seconds = perf_counter() - began
            self.remember(chunk)
            self.emit(events.Added(len(chunk), new, seconds))
            added += new
        return added

    def drop_known(self, items: Iterable[EncodedItem]) -> list[EncodedItem]:
        """Return the items that the store may not hold yet, in order and without duplicates."""
        self._check_generation()
        fresh: dict[bytes, EncodedItem] = {}
        for item in items:
            if item.hash not in self.known_keys:
                fresh.setdefault(item.hash, item)  # of two items with the same key, the first counts, as in the store
        return list(fresh.values())

    def knows(self, item_hash: bytes) -> bool:
        """Return whether the store is known to hold an item, by its hash."""
        if self._generation != self.store.generation:  # inline, because this runs for every link
            self._check_generation()
        return item_hash in self.known_keys

    def _check_generation(self) -> None:
        """Forget the known keys if the store may have lost items since they were confirmed."""
        if self._generation != self.store.generation:
            self._generation = self.store.generation
            self.known_keys.clear()

    def remember(self, items: Sequence[EncodedItem]) -> None:
        """Note that the store holds these items, so that they are not sent again."""
        self.known_keys.update(item.hash for item in items)

    def watch_clock(self, now: int, seconds: float) -> None:
        """Compare the store's clock with this machine's, and report when the store's stepped forward.

        `now` is the store's time in a reply that took `seconds`. A step forward ends leases early (INV-3).
        """
        ours, theirs = lease_clock(), now / SECOND
        if self._clocks is not None:
            step = (theirs - self._clocks[1]) - (ours - self._clocks[0])
            # After a step back, a partition's own time continues from before: some replies carry that later time.
            if step > CLOCK_TOLERANCE and theirs > self._latest_store_time + CLOCK_TOLERANCE:
                log.warning(
                    "the store's clock stepped forward by %.1f s: leases may have ended early",
                    step,
                    extra=events.AS_EVENT,
                )
                self.emit(events.ClockStepped(step))
        # The store read its clock after the request was sent, but a blocked event loop may have delayed the reply.
        self._clocks = ours - seconds, theirs
        self._latest_store_time = max(self._latest_store_time, theirs)


def _read_user() -> str:
    """Return the name of the user that runs this process, or the number of one without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
