"""Encode items and outcomes for a Store, and decode what it returns. Everything is checked on the way in."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from typing import Any, assert_never

from swath.core.errors import InvalidItem, InvalidOutcome
from swath.core.item import LEVELS, UNCHANGED, Dead, Done, Item, Outcome, Release, Retry, Split
from swath.core.lane import KEY_HASH_BYTES, hash_lane
from swath.core.retry_policy import compute_backoff, count_tries
from swath.core.store import EncodedItem, Fact, Move, MoveKind
from swath.core.validation import (
    MAX_ERROR_CHARS,
    MAX_FACT_BYTES,
    MAX_FACT_KEY_BYTES,
    MAX_JSON_DEPTH,
    MAX_KEY_BYTES,
    MAX_PAYLOAD_BYTES,
    MAX_REASON_CHARS,
    MAX_RESULT_BYTES,
    MAX_SPAN,
    check_delay,
    check_key,
    check_lane,
    check_not_before,
    check_text,
    show,
)

DROPPED = "dropped"  # the key in the result of an item that was dropped, with the reason
CACHED_LANES = 120_000  # about 35 MB

_DONE = MoveKind.DONE  # looking up a member on its class costs as much as a function call
_to_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_CONTAINERS = (dict, list, tuple)


def encode_item(item: Item | EncodedItem | str, partitions: int) -> EncodedItem:
    """Check and encode an item, unless it is encoded already.

    This is the hottest function of the package: a crawl calls it for every link.
    """
    if isinstance(item, EncodedItem):
        return item
    if isinstance(item, str):
        item = Item(item)
    elif not isinstance(item, Item):
        raise InvalidItem(f"{show(item)} is not an item: pass a swath.Item or a key (str)")
    key, lane, priority, payload, not_before, span = item[:6]
    key_bytes = check_text("key", key, MAX_KEY_BYTES)
    if type(lane) is not str:
        check_lane(lane)
    number, lane_hash = _hash_lane(lane)
    if type(priority) is not int or not 0 <= priority < LEVELS:
        raise InvalidItem(f"priority {show(priority)} of {show(key)}: pass 0 to {LEVELS - 1}; higher is claimed first")
    if type(span) is not int or not 1 <= span <= MAX_SPAN:
        raise InvalidItem(f"span {show(span)} of {show(key)}: pass a whole number from 1 to {MAX_SPAN:,}")
    fields = (
        number % partitions,
        blake2b(key_bytes, digest_size=KEY_HASH_BYTES).digest() + lane_hash,
        lane,
        priority,
        key,
        None if payload is None else encode_json("payload", key, payload, MAX_PAYLOAD_BYTES),
        None if not_before is None else check_not_before(key, not_before),
        span,
    )
    return tuple.__new__(EncodedItem, fields)  # half the time of EncodedItem(…), which binds arguments by name


@lru_cache(maxsize=CACHED_LANES)
def _hash_lane(lane: str) -> tuple[int, bytes]:
    check_lane(lane)
    return hash_lane(lane)


def decode_items(items: Sequence[Item]) -> list[Item]:
    """Return the items of a claim with their payloads decoded."""
    return [item if item.payload is None else _decode_payload(item) for item in items]


def _decode_payload(item: Item) -> Item:
    fields = (*item[:3], json.loads(item.payload), *item[4:])
    return tuple.__new__(Item, fields)  # half the time of item._replace(…), which binds arguments by name


def encode_done(item: Item, result: Any, revisit_after: float | None, started: bool, payload: Any = UNCHANGED) -> Move:
    """Encode `done`, the outcome of nearly every item."""
    delay = None if revisit_after is None else check_delay("revisit_after", revisit_after)
    text = None if result is None else _encode_result(item, result)
    next_payload = None if payload is UNCHANGED else _encode_next_payload(item, payload, revisit_after)
    fields = (item.position, _DONE, delay, text, None, None, started, next_payload, None)
    return tuple.__new__(Move, fields)  # half the time of Move(…), as above


def _encode_next_payload(item: Item, payload: Any, revisit_after: float | None) -> str:
    """Encode the payload of the next visit. None becomes "null", because for None a store keeps the old payload."""
    if revisit_after is None:
        raise InvalidOutcome(
            f"done(payload=…) of {show(item.key)} without revisit_after: the payload is for the next visit, "
            "so pass revisit_after as well, or keep the value as the result"
        )
    return encode_json("payload", item.key, payload, MAX_PAYLOAD_BYTES)


def encode_outcome(outcome: Outcome, *, max_attempts: int, partitions: int) -> Move:
    """Encode any outcome. A retry becomes dead here if the item has no attempts left."""
    item = outcome.item
    match outcome:
        case Done():
            return encode_done(item, outcome.result, outcome.revisit_after, outcome.started, outcome.payload)
        case Retry():
            return _encode_retry(outcome, max_attempts)
        case Dead():
            reason, error = _encode_reason(outcome.reason), _encode_error(outcome.error)
            return Move(item.position, MoveKind.DEAD, reason=reason, error=error, started=outcome.started)
        case Release():
            delay = None if outcome.after is None else check_delay("after", outcome.after)
            return Move(item.position, MoveKind.RELEASE, delay=delay, started=outcome.started)
        case Split():
            return _encode_split(outcome, partitions)
        case _:
            assert_never(outcome)


def _encode_retry(outcome: Retry, max_attempts: int) -> Move:
    item = outcome.item
    reason, error = _encode_reason(outcome.reason), _encode_error(outcome.error)
    tries = count_tries(item.attempts, item.losses)
    if tries >= max_attempts:
        reason = _encode_reason(f"gave up after {tries} attempt{'s' if tries > 1 else ''}: {reason}")
        return Move(item.position, MoveKind.DEAD, reason=reason, error=error)
    after = compute_backoff(tries - 1) if outcome.after is None else outcome.after
    return Move(item.position, MoveKind.RETRY, delay=check_delay("after", after), reason=reason, error=error)


def _encode_split(outcome: Split, partitions: int) -> Move:
    """Encode the two parts of a range: the first ends at `at`, and the rest starts there and gets its own key.

    An item's `hi` shrinks with every split, so two splits never derive the same key.
    """
    item = outcome.item
    payload = item.payload
    if not isinstance(payload, Mapping) or "lo" not in payload or "hi" not in payload:
        raise InvalidOutcome(
            f"split of {show(item.key)}: its payload is not a range; split() needs a mapping with `lo` and `hi`"
        )
    if outcome.at in (payload["lo"], payload["hi"]):
        raise InvalidOutcome(
            f"split of {show(item.key)} at {show(outcome.at)} leaves one part empty: return done() instead"
        )
    first = encode_json("payload", item.key, {**payload, "hi": outcome.at}, MAX_PAYLOAD_BYTES)
    rest = Item(
        f"{item.key}|{_to_json(outcome.at)}", item.lane, item.priority, {**payload, "lo": outcome.at}, span=item.span
    )
    return Move(
        item.position,
        MoveKind.SPLIT,
        result=_encode_result(item, outcome.result),
        payload=first,
        rest=encode_item(rest, partitions),
    )


def encode_facts(facts: Mapping[str, Any]) -> list[Fact]:
    """Check and encode facts."""
    for key in facts:
        if (size := len(check_key(key))) > MAX_FACT_KEY_BYTES:
            raise InvalidItem(
                f"fact key {show(key)} has {size:,} bytes, the limit is {MAX_FACT_KEY_BYTES:,}: use a digest as the key"
            )
    return [Fact(key, encode_json("fact", key, value, MAX_FACT_BYTES)) for key, value in facts.items()]


def encode_drop(reason: object) -> str:
    """Return the result of items that are dropped."""
    return _to_json({DROPPED: _encode_reason(reason)})


def encode_json(name: str, key: str, value: Any, limit: int) -> str:
    """Encode a value as compact ASCII JSON that every store can hold and every parser can read."""
    try:
        text = _to_json(value)
    except (TypeError, ValueError) as error:
        raise InvalidItem(f"{name} of {show(key)} cannot be encoded as JSON: {error}") from error
    except RecursionError as error:
        raise _build_depth_error(name, key) from error
    if len(text) > 2 * MAX_JSON_DEPTH:  # a shorter text has too few brackets to be too deep
        if len(text) > limit:
            raise InvalidItem(f"{name} of {show(key)} has {len(text):,} bytes as JSON, the limit is {limit:,}")
        if text.count("[") + text.count("{") > MAX_JSON_DEPTH and _is_too_deep(value):
            raise _build_depth_error(name, key)
    return text


def _build_depth_error(name: str, key: str) -> InvalidItem:
    return InvalidItem(f"{name} of {show(key)} is nested too deeply, the limit is {MAX_JSON_DEPTH} levels: flatten it")


def _is_too_deep(value: Any) -> bool:
    """Return whether an encodable value has more than MAX_JSON_DEPTH levels."""
    level = [value] if isinstance(value, _CONTAINERS) else []
    for _ in range(MAX_JSON_DEPTH):
        if not level:
            break
        members = chain.from_iterable([outer.values() if isinstance(outer, dict) else outer for outer in level])
        level = [inner for inner in members if isinstance(inner, _CONTAINERS)]
    return bool(level)


def _encode_result(item: Item, result: Any) -> str | None:
    return None if result is None else encode_json("result", item.key, result, MAX_RESULT_BYTES)


def _encode_reason(reason: object) -> str:
    return _make_storable(str(reason))[:MAX_REASON_CHARS]


def _encode_error(error: object) -> str | None:
    """Encode a traceback. Truncate a long one at the start, because the end names the exception."""
    return None if error is None else _make_storable(str(error))[-MAX_ERROR_CHARS:]


def _make_storable(text: str) -> str:
    """Replace the characters that a store cannot hold in the text of a handler."""
    return text.replace("\0", "\N{SYMBOL FOR NULL}").encode(errors="backslashreplace").decode()
