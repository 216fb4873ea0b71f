"""Check the keys of a store: each is in exactly one place (INV-4), and in one place only (INV-7).

The check has two directions. From every known hash it goes to the states that have an item at its position, and finds
keys that are nowhere or in two states. From every item it goes to the hash of its key, and finds items that are not
known and keys that have a second item at another position. Each step reads a bounded number of rows, and its cursor
continues it.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from swath.core.check import Mismatch
from swath.core.errors import InvalidSetting
from swath.core.inspection import format_cursor, parse_cursor
from swath.core.lane import HASH_BYTES, hash_key, locate_lane
from swath.core.store import ADD_CHUNK, ITEM_STATES, ItemRow, KnownPlace, Store
from swath.core.validation import show

MAX_MISMATCHES = 1_000  # of one call, which ends then
KNOWN = "known"
_KNOWN_CURSOR = re.compile(rf"([0-9]{{1,4}})/([0-9a-f]{{{2 * HASH_BYTES}}})", re.ASCII)
_PHASES = (KNOWN, *ITEM_STATES)


@dataclass(frozen=True, slots=True)
class KeyCheckReport:
    """The result of `Frontier.check_keys`."""

    examined: int  # known keys and items
    mismatches: Sequence[Mismatch]
    after: str | None  # continues the check; None: it is complete


async def check_keys(store: Store, *, after: str | None, seconds: float | None) -> KeyCheckReport:
    """Check keys step by step, for about `seconds` or to the end."""
    end = None if seconds is None else perf_counter() + seconds
    examined, mismatches = 0, list[Mismatch]()
    cursor = _parse(after)
    while True:
        phase, place = cursor
        if phase == KNOWN:
            count, found, place = await _check_known(store, place)
        else:
            count, found, place = await _check_items(store, phase, place)
        examined += count
        mismatches += found
        if place is None:
            if phase == _PHASES[-1]:
                return KeyCheckReport(examined, mismatches, None)
            phase = _PHASES[_PHASES.index(phase) + 1]
        cursor = phase, place
        if (end is not None and perf_counter() >= end) or len(mismatches) >= MAX_MISMATCHES:
            return KeyCheckReport(examined, mismatches, f"{phase}:{place or ''}")


def _parse(after: Any) -> tuple[str, str | None]:
    """Return the phase and the place in it; None is its beginning."""
    if after is None:
        return KNOWN, None
    phase, colon, place = after.partition(":") if isinstance(after, str) else ("", "", "")
    if phase not in _PHASES or not colon or (phase == KNOWN and place and not _KNOWN_CURSOR.fullmatch(place)):
        raise InvalidSetting(f"after={show(after)} is not from a report of this check: pass its `after`")
    if phase != KNOWN and place:
        parse_cursor(place)
    return phase, place or None


async def _check_known(store: Store, place: str | None) -> tuple[int, list[Mismatch], str | None]:
    start = (-1, b"")
    if place is not None:
        number, digits = place.split("/")
        start = int(number), bytes.fromhex(digits)
    page = await store.known_places(after=start, limit=ADD_CHUNK)
    found = [_describe(known) for known in page if len(known.states) != 1]
    last = f"{page[-1].partition}/{page[-1].hash.hex()}" if len(page) == ADD_CHUNK else None
    return len(page), found, last


def _describe(known: KnownPlace) -> Mismatch:
    where = f"the key with hash {known.hash.hex()} at position {known.position:,}"
    if not known.states:
        return Mismatch(known.partition, f"INV-4: {where} is known, and its item is in no place")
    return Mismatch(known.partition, f"INV-4: {where} is in two places: {' and '.join(known.states)}")


async def _check_items(store: Store, state: str, place: str | None) -> tuple[int, list[Mismatch], str | None]:
    page = await store.items(state, after=None if place is None else parse_cursor(place), limit=ADD_CHUNK)
    rows = defaultdict[int, list[ItemRow]](list)
    for row in page.rows:
        rows[row.partition].append(row)
    found = []
    for partition, mine in rows.items():
        hashes = [hash_key(row.key) + locate_lane(row.lane, store.settings.partitions)[1] for row in mine]
        positions = await store.find_positions(partition, hashes)
        for row, known, position in zip(mine, hashes, positions, strict=True):
            if position != row.position and await _is_still_there(store, row, position):
                found.append(_describe_item(row, known, position))
    return len(page.rows), found, None if page.after is None else format_cursor(page.after)


async def _is_still_there(store: Store, row: ItemRow, position: int | None) -> bool:
    """Return whether an item is at its old position although its key has another one.

    The item was read first. It may have moved in between, but no key ever goes back to an earlier position.
    """
    if position is None:
        return True  # keys are never forgotten
    before = (row.partition, row.position - 1, 0)
    if row.fence is not None:
        before = (row.partition, row.fence, row.position - 1)
    page = await store.items(row.state, after=before, limit=1)
    return [(again.partition, again.position) for again in page.rows] == [(row.partition, row.position)]


def _describe_item(row: ItemRow, known: bytes, position: int | None) -> Mismatch:
    where = f"{show(row.key)} of lane {show(row.lane)} is {row.state} at position {row.position:,}"
    if position is None:
        return Mismatch(row.partition, f"INV-7: {where}, and its key is not known (hash {known.hex()})")
    return Mismatch(row.partition, f"INV-7: {where}, and its key is at position {position:,} as well")
