"""Check arguments before they reach a store. Every message says what to pass instead."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeGuard

from swath.core.clock import SECOND, from_datetime, is_moment, to_microseconds
from swath.core.errors import InvalidItem, InvalidOutcome, InvalidSetting, UsageError
from swath.core.item import UNCHANGED, Unchanged
from swath.core.store import OutputMove

MAX_KEY_BYTES = 8_192
MAX_LANE_BYTES = 512
MAX_PAYLOAD_BYTES = 262_144
MAX_RESULT_BYTES = 65_536
MAX_FACT_BYTES = 1_048_576
MAX_FACT_KEY_BYTES = 2_000  # a PostgreSQL index entry holds at most 2,704 bytes
MAX_OUTPUT_NAME_BYTES = 2_000  # for the same reason
MAX_COUNTER_NAME_BYTES = 200
MAX_COUNT = 2**53 - 1  # the largest whole number that every JSON parser reads exactly
MAX_JSON_DEPTH = 200  # Python's parser allows about 1,000 levels, minus the depth of the caller's stack
MAX_WORKER_CHARS = 512
MAX_REASON_CHARS = 1_000
MAX_ERROR_CHARS = 8_000
MAX_SPAN = 2**40
MAX_PARTITIONS = 1_024
MAX_SECONDS = 100 * 365 * 86_400  # 100 years
MIN_LEASE_SECONDS = 0.1
MAX_CONCURRENCY = 1_000_000
MAX_ATTEMPTS = 10_000  # PostgreSQL stores retries plus lost workers in two bytes, and each can reach this limit

UNLIMITED = 0  # how a store keeps `concurrency=None`
SHOWN_CHARS = 80  # characters of a value that a message shows


def check_key(key: object) -> bytes:
    """Return a key as UTF-8."""
    return check_text("key", key, MAX_KEY_BYTES)


def check_lane(lane: object) -> None:
    """Check the name of a lane: printable text of at most 512 bytes of UTF-8."""
    check_text("lane", lane, MAX_LANE_BYTES)
    if isinstance(lane, str) and not lane.isprintable():
        raise InvalidItem(f"lane {show(lane)} has control characters, and lanes are printed: use printable characters")


def check_text(name: str, value: object, limit: int) -> bytes:
    """Return a text in UTF-8, as a store keeps it."""
    if not isinstance(value, str):
        raise InvalidItem(f"{name} {show(value)} is of type {type(value).__name__}: pass a str")
    if not value:
        raise InvalidItem(f"the {name} is empty: pass at least one character")
    if "\0" in value:
        raise InvalidItem(f"{name} {show(value)} has a NUL character, which stores cannot keep: percent-encode it")
    try:
        encoded = value.encode()
    except UnicodeEncodeError as error:
        raise InvalidItem(f"{name} {show(value)} cannot be encoded as UTF-8: percent-encode it") from error
    if len(encoded) > limit:
        raise InvalidItem(
            f"{name} {show(value)} has {len(encoded):,} bytes, the limit is {limit:,}: put the rest in the payload"
        )
    return encoded


def check_not_before(key: str, moment: object) -> int:
    """Return an item's `not_before` in microseconds."""
    if not isinstance(moment, datetime) or not is_moment(moment):
        raise InvalidItem(f"not_before={show(moment)} of {show(key)} {NOT_A_MOMENT}")
    return from_datetime(moment)


def check_moment(name: str, moment: object) -> int:
    """Return a datetime in microseconds."""
    if not isinstance(moment, datetime) or not is_moment(moment):
        raise UsageError(f"{name}={show(moment)} {NOT_A_MOMENT}")
    return from_datetime(moment)


NOT_A_MOMENT = "is not a datetime with a time zone, before the year 10000: use datetime.now(UTC) + timedelta(…)"


def check_worker(worker: object) -> None:
    if not isinstance(worker, str) or not worker.isprintable() or len(worker) > MAX_WORKER_CHARS:
        raise InvalidSetting(f"worker={show(worker)}: pass printable text of at most {MAX_WORKER_CHARS} characters")


def check_partitions(partitions: object) -> int:
    if not is_int(partitions) or not 1 <= partitions <= MAX_PARTITIONS:
        raise InvalidSetting(f"partitions={show(partitions)}: pass a whole number from 1 to {MAX_PARTITIONS:,}")
    return partitions


def check_seconds(name: str, seconds: object) -> int:
    """Return a duration in microseconds."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= MAX_SECONDS:
        raise InvalidSetting(f"{name}={show(seconds)}: pass a number of seconds from 0 to {MAX_SECONDS:,}")
    return to_microseconds(seconds)


def check_lease(lease: float) -> float:
    if check_seconds("lease", lease) < MIN_LEASE_SECONDS * SECOND:
        raise InvalidSetting(
            f"lease={lease!r}: pass at least {MIN_LEASE_SECONDS} s, and more than one item takes between renewals"
        )
    return lease


def check_concurrency(concurrency: object) -> int:
    """Return a limit of items in flight as a store keeps it; None means unlimited."""
    if concurrency is None:
        return UNLIMITED
    if not is_int(concurrency) or not 1 <= concurrency <= MAX_CONCURRENCY:
        raise InvalidSetting(
            f"concurrency={show(concurrency)}: pass a whole number from 1 to {MAX_CONCURRENCY:,}, or None for no limit"
        )
    return concurrency


def check_settings(
    min_interval: float | None, concurrency: int | Unchanged | None, max_attempts: int | None
) -> dict[str, int]:
    """Return the given defaults of a frontier as a store keeps them."""
    given: dict[str, int] = {}
    if min_interval is not None:
        given["min_interval"] = check_seconds("min_interval", min_interval)
    if concurrency is not UNCHANGED:
        given["concurrency"] = check_concurrency(concurrency)
    if max_attempts is not None:
        given["max_attempts"] = check_attempts(max_attempts)
    return given


def check_attempts(attempts: object) -> int:
    if not is_int(attempts) or not 1 <= attempts <= MAX_ATTEMPTS:
        raise InvalidSetting(f"max_attempts={show(attempts)}: pass a whole number from 1 to {MAX_ATTEMPTS:,}")
    return attempts


def check_delay(name: str, seconds: object) -> int:
    """Return the delay of an outcome in microseconds."""
    try:
        return check_seconds(name, seconds)
    except InvalidSetting as error:
        raise InvalidOutcome(str(error)) from None


def check_outputs(outputs: Sequence[object]) -> None:
    """Check the moves of output files: each file at most once, with whole numbers as lengths."""
    names = set[str]()
    for output in outputs:
        if not isinstance(output, OutputMove):
            raise InvalidOutcome(f"{show(output)} is not an OutputMove: pass OutputMove(name, old length, new length)")
        try:
            check_text("output", output.name, MAX_OUTPUT_NAME_BYTES)
        except InvalidItem:
            raise InvalidOutcome(
                f"output {show(output.name)}: a name is text of 1 to {MAX_OUTPUT_NAME_BYTES:,} bytes in UTF-8 "
                "without NUL"
            ) from None
        if not all(is_int(length) and 0 <= length < 2**63 for length in output[1:]):
            raise InvalidOutcome(
                f"output {show(output.name)} has the lengths {show(output[1:])}: pass whole numbers from 0"
            )
        if output.name in names:
            raise InvalidOutcome(f"output {show(output.name)} appears twice in one settlement: combine the two moves")
        names.add(output.name)


def check_counters(name: str, key: str, counters: object) -> Mapping[str, int]:
    """Check the counters of an outcome: printable names, whole numbers."""
    if not isinstance(counters, Mapping):
        raise InvalidOutcome(
            f"{name}={show(counters)} of {show(key)} is not a mapping: pass names and whole numbers, "
            'such as {"records": 12}'
        )
    for counter, count in counters.items():
        if not isinstance(counter, str) or not _is_counter_name(counter):
            raise InvalidOutcome(
                f"{name} of {show(key)}: the name {show(counter)} is not printable text of "
                f"1 to {MAX_COUNTER_NAME_BYTES} bytes in UTF-8"
            )
        if not is_int(count) or not -MAX_COUNT <= count <= MAX_COUNT:
            raise InvalidOutcome(
                f"{name} of {show(key)}: {show(counter)} is {show(count)}, not a whole number "
                f"from {-MAX_COUNT:,} to {MAX_COUNT:,}"
            )
    return counters


def _is_counter_name(name: str) -> bool:
    # A lone surrogate is not printable, so a printable name can always be encoded.
    return name.isprintable() and 1 <= len(name.encode()) <= MAX_COUNTER_NAME_BYTES


def is_int(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number; True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def show(value: object) -> str:
    """Return a value for a message: its repr, without control characters and truncated."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 3]}…"
