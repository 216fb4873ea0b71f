"""Drop items: settle those that wait, without a claim."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass

from swath.core.inspection import PendingItem, build_found_item, build_pending_item
from swath.core.lane import hash_key, locate_lane
from swath.core.store import ADD_CHUNK, PENDING_STATES, Cursor, Found, ItemRow, Store

# How often to look again after items were dropped. Each look finds items that changed their state during the one
# before, such as a delayed item that became ready.
MAX_LOOKS = 10

Chooser = Callable[[PendingItem], bool]


async def empty_inboxes(store: Store, lane: str | None) -> None:
    """Take in discovered items, of the lane's partition or of all."""
    wanted = None if lane is None else locate_lane(lane, store.settings.partitions)[0]
    for partition in (await store.status()).partitions:
        if partition.inbox and wanted in (None, partition.partition):
            await store.empty_inbox(partition.partition)


async def list_pending(store: Store, lane: str | None, *, revisits: bool) -> AsyncIterator[Sequence[ItemRow]]:
    """Yield pages of pending items. For one lane, do not read the ready items of the others."""
    if lane is None:
        after: tuple[int, int] | None = None
        while rows := await store.pending(after=after, limit=ADD_CHUNK, revisits=revisits):
            after = (rows[-1].partition, rows[-1].position)
            yield rows
        return
    partition, _ = locate_lane(lane, store.settings.partitions)
    for state in PENDING_STATES:
        async for rows in list_items(store, state, lane=(partition, lane)):
            yield [row for row in rows if revisits or not row.revisit]


async def list_items(
    store: Store, state: str, *, lane: tuple[int, str] | None = None, result_text: str | None = None
) -> AsyncIterator[Sequence[ItemRow]]:
    """Yield pages of the items in a state, which may be empty."""
    after: Cursor | None = None
    while True:
        page = await store.items(state, lane=lane, result_text=result_text, after=after, limit=ADD_CHUNK)
        yield page.rows
        after = page.after
        if after is None:
            return


@dataclass(frozen=True, slots=True)
class Dropper:
    """Drops the chosen items of a store. `result` is JSON."""

    store: Store
    where: Chooser | None
    result: str

    async def drop_keys(self, keys: Iterable[str], lane: str | None) -> int:
        lane_hash = None if lane is None else locate_lane(lane, self.store.settings.partitions)[1]
        return sum([await self._drop_key(hash_key(key), lane_hash) for key in keys])

    async def _drop_key(self, key_hash: bytes, lane_hash: bytes | None) -> int:
        dropped = 0
        for _ in range(MAX_LOOKS):
            found = await self.store.find(key_hash, lane_hash)
            if inboxes := {item.partition for item in found if item.state == "inbox"}:
                for partition in inboxes:
                    await self.store.empty_inbox(partition)
                found = await self.store.find(key_hash, lane_hash)
            chosen = [item for item in found if item.state in ("ready", "delayed") and self._chooses_found(item)]
            places = [(item.partition, item.position) for item in chosen if item.position is not None]
            now = await self.store.drop(places, self.result) if places else 0
            dropped += now
            if now == len(places):
                break  # otherwise another process changed an item between the two calls
        return dropped

    async def drop_all(self, lane: str | None) -> int:
        """Drop the chosen items of a lane or of the frontier.

        A listing by position finds every item once. That of a lane may miss an item that changes its state, so it is
        repeated until it finds nothing.
        """
        await empty_inboxes(self.store, lane)
        dropped = 0
        for _ in range(1 if lane is None else MAX_LOOKS):
            now = 0
            async for rows in list_pending(self.store, lane, revisits=True):
                chosen = [row for row in rows if row.state != "claimed" and self._chooses(row)]
                places = [(row.partition, row.position) for row in chosen]
                now += await self.store.drop(places, self.result) if places else 0
            dropped += now
            if now == 0:
                break
        return dropped

    def _chooses(self, row: ItemRow) -> bool:
        return self.where is None or self.where(build_pending_item(row))

    def _chooses_found(self, found: Found) -> bool:
        return self.where is None or self.where(build_found_item(found))
