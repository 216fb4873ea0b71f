"""From what a caller hands in to what a Store keeps, and back. Everything a store is given was checked here."""

import json
import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from typing import Any, TypeGuard, assert_never

from swath.core.clock import SECOND, from_datetime, is_moment, microseconds
from swath.core.errors import InvalidItem, InvalidOutcome, InvalidSetting
from swath.core.item import LEVELS, Dead, Done, Item, Outcome, Release, Retry, Split
from swath.core.lane import KEY_HASH_BYTES, whereabouts
from swath.core.store import EncodedItem, Fact, Move, MoveKind, OutputMove

MAX_KEY_BYTES = 8_192
MAX_LANE_BYTES = 512
MAX_PAYLOAD_BYTES = 262_144
MAX_RESULT_BYTES = 65_536
MAX_FACT_BYTES = 1_048_576
MAX_FACT_KEY_BYTES = 2_000  # an index of PostgreSQL keeps no more than 2,704 bytes
MAX_DEPTH = 200  # of JSON: Python reads some 1,000 levels, of which whoever reads has used a part
MAX_OUTPUT_BYTES = 2_000  # of its name, for the same reason
MAX_WORKER_CHARS = 512
MAX_REASON_CHARS = 1_000
MAX_ERROR_CHARS = 8_000
MAX_SPAN = 2**40
MAX_PARTITIONS = 1_024
MAX_SECONDS = 100 * 365 * 86_400  # 100 years
MIN_LEASE = 0.1
MAX_CONCURRENCY = 1_000_000
MAX_ATTEMPTS = 10_000  # retries and losses may each be as many, and PostgreSQL keeps their sum in two bytes
NO_MOMENT = "no datetime with a time zone, up to the end of 9999: use datetime.now(UTC) + timedelta(…)"
LANES_REMEMBERED = 120_000  # about 35 MB

BACKOFF_BASE = 30.0
BACKOFF_CAP = 3_600.0

_DONE = MoveKind.DONE  # asked of its class, a member costs as much as a call
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_NESTING = (dict, list, tuple)


def new_item(item: Item | EncodedItem | str, partitions: int) -> EncodedItem:
    """Check an item and encode it, if that was not done before. Links are many: this is the hottest function of the
    package."""
    if isinstance(item, EncodedItem):
        return item
    if isinstance(item, str):
        item = Item(item)
    elif not isinstance(item, Item):
        raise InvalidItem(f"an item is a swath.Item or a key, not {_shown(item)}")
    key, lane, priority, payload, not_before, span = item[:6]
    encoded = _encoded("key", key, MAX_KEY_BYTES)
    if type(lane) is not str:
        check_lane(lane)
    number, lane_hash = _whereabouts(lane)
    if type(priority) is not int or not 0 <= priority < LEVELS:
        raise InvalidItem(f"priority {_shown(priority)} of {_shown(key)}: levels go from 0 to 7, higher first")
    if type(span) is not int or not 1 <= span <= MAX_SPAN:
        raise InvalidItem(f"span {_shown(span)} of {_shown(key)}: a whole number from 1 to {MAX_SPAN}")
    fields = (
        number % partitions,
        blake2b(encoded, digest_size=KEY_HASH_BYTES).digest() + lane_hash,
        lane,
        priority,
        key,
        None if payload is None else _json("payload", key, payload, MAX_PAYLOAD_BYTES),
        None if not_before is None else _not_before(key, not_before),
        span,
    )
    return tuple.__new__(EncodedItem, fields)  # half the cost of EncodedItem(…), which names its arguments first


@lru_cache(maxsize=LANES_REMEMBERED)
def _whereabouts(lane: str) -> tuple[int, bytes]:
    check_lane(lane)
    return whereabouts(lane)


def _not_before(key: str, moment: object) -> int:
    if not isinstance(moment, datetime) or not is_moment(moment):
        raise InvalidItem(f"not_before={_shown(moment)} of {_shown(key)} is {NO_MOMENT}")
    return from_datetime(moment)


def held_items(items: Sequence[Item]) -> list[Item]:
    """Items of a claim, with what their payloads mean."""
    return [item if item.payload is None else _decoded(item) for item in items]


def _decoded(item: Item) -> Item:
    fields = (*item[:3], json.loads(item.payload), *item[4:])
    return tuple.__new__(Item, fields)  # _replace(…), which names them first, costs twice as much


def done(item: Item, result: Any, revisit_after: float | None, started: bool) -> Move:
    """Encode what most outcomes are."""
    delay = None if revisit_after is None else _delay("revisit_after", revisit_after)
    text = None if result is None else _result(item, result)
    fields = (item.position, _DONE, delay, text, None, None, started, None, None)
    return tuple.__new__(Move, fields)


def move(outcome: Outcome, *, max_attempts: int, partitions: int) -> Move:
    """Encode an outcome. Policy is decided here: how long a retry waits, and when there is none."""
    item = outcome.item
    match outcome:
        case Done():
            return done(item, outcome.result, outcome.revisit_after, outcome.started)
        case Retry():
            reason, error = _reason(outcome.reason), _error(outcome.error)
            tries = item.attempts - item.losses + 1  # a worker that was lost says nothing about what it held
            if tries >= max_attempts:
                reason = _reason(f"gave up after {tries} attempt{'s' if tries > 1 else ''}: {reason}")
                return Move(item.position, MoveKind.DEAD, reason=reason, error=error)
            after = backoff(tries - 1) if outcome.after is None else outcome.after
            return Move(item.position, MoveKind.RETRY, delay=_delay("after", after), reason=reason, error=error)
        case Dead():
            return Move(item.position, MoveKind.DEAD, reason=_reason(outcome.reason), error=_error(outcome.error))
        case Release():
            delay = None if outcome.after is None else _delay("after", outcome.after)
            return Move(item.position, MoveKind.RELEASE, delay=delay, started=outcome.started)
        case Split():
            return _split(outcome, partitions)
        case _:
            assert_never(outcome)


def _split(outcome: Split, partitions: int) -> Move:
    """The first part keeps `hi` = at; the rest starts there, under a key of its own. `hi` shrinks with every split
    of an item, so the same key cannot be derived twice."""
    item = outcome.item
    payload = item.payload
    if not isinstance(payload, Mapping) or "lo" not in payload or "hi" not in payload:
        raise InvalidOutcome(f"split of {_shown(item.key)}: the payload of a range is a mapping with `lo` and `hi`")
    if outcome.at in (payload["lo"], payload["hi"]):
        raise InvalidOutcome(
            f"split of {_shown(item.key)} at {_shown(outcome.at)} leaves an empty part: settle it as done"
        )
    kept = _json("payload", item.key, {**payload, "hi": outcome.at}, MAX_PAYLOAD_BYTES)
    rest = Item(
        f"{item.key}|{_encode(outcome.at)}", item.lane, item.priority, {**payload, "lo": outcome.at}, span=item.span
    )
    return Move(
        item.position,
        MoveKind.SPLIT,
        result=_result(item, outcome.result),
        payload=kept,
        rest=new_item(rest, partitions),
    )


def backoff(attempts: int) -> float:
    """Seconds until the next try: doubling with the attempts, with half of it left to chance."""
    pause = min(BACKOFF_CAP, BACKOFF_BASE * 2.0 ** min(attempts, 30))
    return pause / 2 + random.uniform(0, pause / 2)


def facts(known: Mapping[str, Any]) -> list[Fact]:
    """Check facts and encode them."""
    for key in known:
        check_key(key)
        if (size := len(key.encode())) > MAX_FACT_KEY_BYTES:
            raise InvalidItem(
                f"the key {_shown(key)} of a fact has {size:,} bytes; {MAX_FACT_KEY_BYTES:,} is the most. Use a digest"
            )
    return [Fact(key, _json("fact", key, value, MAX_FACT_BYTES)) for key, value in known.items()]


def check_outputs(outputs: Sequence[object]) -> None:
    names = set[str]()
    for output in outputs:
        if not isinstance(output, OutputMove):
            raise InvalidOutcome(f"{_shown(output)} is not an OutputMove, which has a name, an old and a new length")
        try:
            _encoded("output", output.name, MAX_OUTPUT_BYTES)
        except InvalidItem:
            raise InvalidOutcome(
                f"output {_shown(output.name)}: a name is a text of 1 to {MAX_OUTPUT_BYTES:,} bytes of UTF-8, no NUL"
            ) from None
        if not all(_is_int(length) and 0 <= length < 2**63 for length in output[1:]):
            raise InvalidOutcome(f"output {_shown(output.name)}: lengths are whole numbers, not {_shown(output[1:])}")
        if output.name in names:
            raise InvalidOutcome(f"output {_shown(output.name)} is named twice in one settlement: it grows once")
        names.add(output.name)


def check_worker(worker: object) -> None:
    if not isinstance(worker, str) or not worker.isprintable() or len(worker) > MAX_WORKER_CHARS:
        raise InvalidSetting(f"worker={_shown(worker)}: a printable text of up to {MAX_WORKER_CHARS} characters")


def check_key(key: object) -> None:
    _encoded("key", key, MAX_KEY_BYTES)


def check_lane(lane: object) -> None:
    _encoded("lane", lane, MAX_LANE_BYTES)
    if isinstance(lane, str) and not lane.isprintable():
        raise InvalidItem(f"lane {_shown(lane)} has control characters: lanes are shown to people, use a plain name")


def check_partitions(partitions: object) -> int:
    if not _is_int(partitions) or not 1 <= partitions <= MAX_PARTITIONS:
        raise InvalidSetting(f"partitions={_shown(partitions)}: a whole number from 1 to {MAX_PARTITIONS:,}")
    return partitions


def check_settings(min_interval: float | None, concurrency: int | None, max_attempts: int | None) -> dict[str, int]:
    """Those of a frontier's defaults that are given, as a store keeps them."""
    checked = {
        "min_interval": None if min_interval is None else check_seconds("min_interval", min_interval),
        "concurrency": None if concurrency is None else check_concurrency("concurrency", concurrency),
        "max_attempts": None if max_attempts is None else check_attempts(max_attempts),
    }
    return {name: value for name, value in checked.items() if value is not None}


def check_seconds(name: str, seconds: object) -> int:
    """A length of time as microseconds."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= MAX_SECONDS:
        raise InvalidSetting(f"{name}={_shown(seconds)}: a number of seconds from 0 to {MAX_SECONDS:,}")
    return microseconds(seconds)


def check_lease(lease: float) -> float:
    if check_seconds("lease", lease) < MIN_LEASE * SECOND:
        raise InvalidSetting(f"lease={lease!r}: at least {MIN_LEASE} s, and longer than an item takes or is renewed")
    return lease


def check_concurrency(name: str, concurrency: object) -> int:
    if not _is_int(concurrency) or not 0 <= concurrency <= MAX_CONCURRENCY:
        raise InvalidSetting(
            f"{name}={_shown(concurrency)}: a whole number of items at once, up to {MAX_CONCURRENCY:,}, "
            "or 0 for no limit"
        )
    return concurrency


def check_attempts(attempts: object) -> int:
    if not _is_int(attempts) or not 1 <= attempts <= MAX_ATTEMPTS:
        raise InvalidSetting(f"max_attempts={_shown(attempts)}: a whole number from 1 to {MAX_ATTEMPTS:,}")
    return attempts


def _encoded(name: str, value: object, limit: int) -> bytes:
    """A text as the bytes that are stored and hashed."""
    if not isinstance(value, str):
        raise InvalidItem(f"{name} {_shown(value)} is a {type(value).__name__}, not a str")
    if not value:
        raise InvalidItem(f"the {name} is empty: it has to name something")
    if "\0" in value:
        raise InvalidItem(f"{name} {_shown(value)} has a NUL character, which stores cannot keep: percent-encode it")
    try:
        encoded = value.encode()
    except UnicodeEncodeError as error:
        raise InvalidItem(f"{name} {_shown(value)} cannot be encoded as UTF-8: percent-encode it") from error
    if len(encoded) > limit:
        raise InvalidItem(
            f"{name} {_shown(value)} has {len(encoded):,} bytes; {limit:,} is the most. Put the rest in the payload"
        )
    return encoded


def _json(name: str, key: str, value: Any, limit: int) -> str:
    try:
        text = _encode(value)
    except (TypeError, ValueError) as error:
        raise InvalidItem(f"{name} of {_shown(key)} is not JSON: {error}") from error
    except RecursionError as error:
        raise _too_deep(name, key) from error
    if len(text) > 2 * MAX_DEPTH:  # as most are not; a level is two brackets
        if len(text) > limit:
            raise InvalidItem(f"{name} of {_shown(key)} has {len(text):,} bytes as JSON; {limit:,} is the most")
        if text.count("[") + text.count("{") > MAX_DEPTH and _is_deep(value):
            raise _too_deep(name, key)
    return text


def _too_deep(name: str, key: str) -> InvalidItem:
    return InvalidItem(f"{name} of {_shown(key)} is nested too deep: {MAX_DEPTH} levels are the most")


def _is_deep(value: Any) -> bool:
    """Whether a value that can be encoded has more than MAX_DEPTH levels."""
    level = [value] if isinstance(value, _NESTING) else []
    for _ in range(MAX_DEPTH):
        if not level:
            break
        parts = chain.from_iterable([outer.values() if isinstance(outer, dict) else outer for outer in level])
        level = [inner for inner in parts if isinstance(inner, _NESTING)]
    return bool(level)


def _result(item: Item, result: Any) -> str | None:
    return None if result is None else _json("result", item.key, result, MAX_RESULT_BYTES)


def _delay(name: str, seconds: object) -> int:
    try:
        return check_seconds(name, seconds)
    except InvalidSetting as error:
        raise InvalidOutcome(str(error)) from None


def _reason(reason: object) -> str:
    return _storable(str(reason))[:MAX_REASON_CHARS]


def _error(error: object) -> str | None:
    """The end of a long traceback says most."""
    return None if error is None else _storable(str(error))[-MAX_ERROR_CHARS:]


def _storable(text: str) -> str:
    """What a handler says may hold anything; it is kept as far as a store can."""
    return text.replace("\0", "\N{SYMBOL FOR NULL}").encode(errors="backslashreplace").decode()


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: object) -> str:
    """A value in a message: its repr, cut where it is long."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
