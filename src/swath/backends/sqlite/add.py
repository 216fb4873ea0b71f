"""Add the items that the frontier does not have yet (INV-4, INV-7)."""

from collections.abc import Iterable, Sequence

from swath.backends.sqlite.state import Lane, Lanes, Partition, Session
from swath.core.lane import FRESH, HASH_BYTES
from swath.core.store import EncodedItem


def add(session: Session, items: Sequence[EncodedItem]) -> int:
    added = 0
    for number, own in group_by_partition(items):
        partition = Partition.load(session, number)
        now = partition.tick(session.clock.now())
        lanes = Lanes(session, partition)
        added += take_in(lanes, own, now)
        lanes.requeue(now)
        partition.save(session)
    return added


def group_by_partition(items: Iterable[EncodedItem]) -> list[tuple[int, list[EncodedItem]]]:
    groups: dict[int, list[EncodedItem]] = {}
    for item in items:
        groups.setdefault(item.partition, []).append(item)
    return sorted(groups.items())


def take_in(lanes: Lanes, items: Sequence[EncodedItem], now: int) -> int:
    """Add the items that are new and return how many were added. All items belong to one partition.

    The caller places the lanes and saves the partition.
    """
    new = _filter_unknown(lanes, items)
    if new:
        lanes.load_by_name({item.lane for item in new})
        enter(lanes, [(item, lanes.get_or_create(item.lane), lanes.partition.allot(item.span)) for item in new], now)
    return len(new)


def _filter_unknown(lanes: Lanes, items: Sequence[EncodedItem]) -> list[EncodedItem]:
    first: dict[bytes, EncodedItem] = {}
    for item in items:
        first.setdefault(item.hash, item)
    hashes = sorted(first)
    blob = b"".join(hashes)
    assert len(blob) == HASH_BYTES * len(hashes), f"a hash has {HASH_BYTES} bytes"
    where = {"partition": lanes.partition.number, "count": len(hashes), "hashes": blob}
    unknown = {hashes[i] for (i,) in lanes.session.connection.execute(lanes.session.sql["unknown_hashes"], where)}
    return [item for item in first.values() if item.hash in unknown]


def enter(lanes: Lanes, entries: Sequence[tuple[EncodedItem, Lane, int]], now: int) -> None:
    """Insert new items at the positions that were allotted to them."""
    number = lanes.partition.number
    seen, ready, delayed = [], [], []
    wall = now + lanes.session.clock.wall_ahead() if any(item.not_before is not None for item, *_ in entries) else now
    for item, lane, position in entries:
        seen.append((number, item.hash, position))
        if item.not_before is not None and item.not_before > wall:
            lanes.touch(lane)
            delayed.append(
                (
                    number,
                    position,
                    lane.number,
                    item.priority,
                    item.hash,
                    item.key,
                    item.payload,
                    item.span,
                    item.not_before,
                    True,
                )
            )
            continue
        rank, place = lanes.make_ready(lane, item.priority, FRESH)
        ready.append((number, lane.number, rank, place, position, item.hash, item.key, item.payload, item.span))
    execute, sql = lanes.session.connection.executemany, lanes.session.sql
    seen.sort()
    execute(sql["insert_seen"], seen)
    ready.sort()
    execute(sql["insert_item"], ready)
    execute(sql["insert_delayed"], delayed)
    lanes.partition.delayed += len(delayed)
