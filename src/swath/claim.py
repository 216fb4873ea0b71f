"""Claim: a leased batch of items, as users see it."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from swath.core.clock import lease_clock
from swath.core.errors import InvalidOutcome, LeaseLost, SwathError
from swath.core.item import Item, Outcome
from swath.core.leased_items import EncodedOutcome, LeasedItems
from swath.core.store import OutputMove
from swath.core.validation import check_lease, check_outputs


class Claim:
    """A batch of items, leased to one worker until `expires_at`. Only its holder can settle or renew it (INV-2)."""

    def __init__(self, leased: LeasedItems) -> None:
        self._leased = leased
        # Items of an interrupted settlement. If it was committed, passing their outcomes again is not an error.
        self._interrupted: set[tuple[int, int]] = set()

    def __repr__(self) -> str:
        held = f"{self.remaining} of {len(self.items)} items unsettled"
        return f"<Claim {self.fence}: {held}, leased until {self.expires_at:%H:%M:%S}>"

    @property
    def items(self) -> Sequence[Item]:
        """All items of the claim, settled or not."""
        return self._leased.items

    @property
    def fence(self) -> int:
        """The claim's number. It rises with every claim of the frontier."""
        return self._leased.fence

    @property
    def expires_at(self) -> datetime:
        """When the lease ends, on the store's clock."""
        return self._leased.expires_at

    @property
    def seconds_left(self) -> float:
        """Seconds until the lease ends, on a clock that keeps running while the machine sleeps; negative afterwards."""
        return self._leased.ends_at - lease_clock()

    @property
    def partitions(self) -> Sequence[int]:
        """The partitions that the unsettled items belong to."""
        return self._leased.partitions

    @property
    def remaining(self) -> int:
        """The number of items that are not settled yet."""
        return self._leased.remaining

    async def renew(self, *, lease: float | None = None) -> None:
        """Make the lease end `lease` seconds from now. Without `lease`, use the duration of the last lease."""
        try:
            await self._leased.renew(None if lease is None else check_lease(lease))
        except LeaseLost as lost:
            self._leased.report_lost(lost)
            raise

    async def settle(
        self, outcomes: Iterable[Outcome], *, connection: Any = None, outputs: Sequence[OutputMove] = ()
    ) -> None:
        """Commit the outcomes of all or some of the items.

        The outcomes of each partition commit together with the items that they discovered (INV-5). With `connection`,
        an open psycopg or sqlite3 transaction on the frontier's database, everything commits with your own writes:
        make this call the last statement before the commit.

        After StoreUnavailable, or if the call was cancelled, it is not known whether the outcomes took effect. Call
        again with the same outcomes: those that were committed are not applied again. After any other error, the
        outcomes of some partitions may have been committed; you may pass them again with the others.
        """
        outcomes = list(outcomes)
        check_outputs(outputs)
        if outputs and not outcomes:
            raise InvalidOutcome("outputs were given without an outcome: pass the outcomes that they were written for")
        grouped = self._group(outcomes)
        if outputs and len(grouped) > 1:
            raise InvalidOutcome(
                f"outputs were given with outcomes of partitions {sorted(grouped)}: "
                "one settlement has one partition, so settle each partition separately"
            )
        try:
            for partition in sorted(grouped):
                if connection is None:
                    await self._leased.commit(partition, grouped[partition], outputs=outputs)
                else:
                    await self._leased.commit_with(partition, grouped[partition], connection, outputs=outputs)
        except (SwathError, asyncio.CancelledError):
            self._interrupted.update(
                (part, outcome.move.position) for part, group in grouped.items() for outcome in group
            )
            raise
        if self._interrupted:
            self._interrupted.difference_update(_get_position(outcome.item) for outcome in outcomes)

    def _group(self, outcomes: Iterable[object]) -> dict[int, list[EncodedOutcome]]:
        """Encode all outcomes and group them by partition, before anything is sent."""
        grouped: dict[int, list[EncodedOutcome]] = {}
        for outcome in outcomes:
            if self._interrupted and isinstance(outcome, Outcome) and self._was_settled(outcome.item):
                continue
            encoded = self._leased.encode(outcome)
            partition = encoded.item.partition
            group = grouped.get(partition)
            if group is None:
                group = grouped[partition] = []
            group.append(encoded)
        for group in grouped.values():
            if len({outcome.move.position for outcome in group}) < len(group):
                positions = [outcome.move.position for outcome in group]
                twice = next(outcome for outcome in group if positions.count(outcome.move.position) > 1)
                raise InvalidOutcome(f"{twice.item.key!r} has two outcomes in one settlement: pass one of them")
        return grouped

    def _was_settled(self, item: Item) -> bool:
        """Return whether an interrupted settlement had committed this item."""
        return _get_position(item) in self._interrupted and not self._leased.holds_position(*_get_position(item))


def _get_position(item: Item) -> tuple[int, int]:
    return item.partition, item.position
