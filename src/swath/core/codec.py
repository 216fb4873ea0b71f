"""Names that move to validation, encoding and retry_policy; this module goes away with its last import."""

from swath.core.encoding import decode_items as held_items
from swath.core.encoding import encode_done as done
from swath.core.encoding import encode_facts as facts
from swath.core.encoding import encode_item as new_item
from swath.core.encoding import encode_outcome as move
from swath.core.errors import InvalidSetting
from swath.core.validation import (
    MAX_ATTEMPTS,
    MAX_CONCURRENCY,
    MAX_ERROR_CHARS,
    MAX_KEY_BYTES,
    MAX_LANE_BYTES,
    MAX_PARTITIONS,
    MAX_PAYLOAD_BYTES,
    MAX_RESULT_BYTES,
    MAX_SECONDS,
    MAX_SPAN,
    check_attempts,
    check_key,
    check_lane,
    check_lease,
    check_outputs,
    check_partitions,
    check_seconds,
    check_worker,
    is_int,
    show,
)
from swath.core.validation import NOT_A_MOMENT as _NOT_A_MOMENT

NO_MOMENT = _NOT_A_MOMENT.removeprefix("is ")


def check_concurrency(name: str, concurrency: object) -> int:
    if not is_int(concurrency) or not 0 <= concurrency <= MAX_CONCURRENCY:
        raise InvalidSetting(
            f"{name}={show(concurrency)}: a whole number of items at once, up to {MAX_CONCURRENCY:,}, or 0 for no limit"
        )
    return concurrency


def check_settings(min_interval: float | None, concurrency: int | None, max_attempts: int | None) -> dict[str, int]:
    checked = {
        "min_interval": None if min_interval is None else check_seconds("min_interval", min_interval),
        "concurrency": None if concurrency is None else check_concurrency("concurrency", concurrency),
        "max_attempts": None if max_attempts is None else check_attempts(max_attempts),
    }
    return {name: value for name, value in checked.items() if value is not None}


__all__ = [
    "MAX_ATTEMPTS",
    "MAX_CONCURRENCY",
    "MAX_ERROR_CHARS",
    "MAX_KEY_BYTES",
    "MAX_LANE_BYTES",
    "MAX_PARTITIONS",
    "MAX_PAYLOAD_BYTES",
    "MAX_RESULT_BYTES",
    "MAX_SECONDS",
    "MAX_SPAN",
    "NO_MOMENT",
    "check_attempts",
    "check_concurrency",
    "check_key",
    "check_lane",
    "check_lease",
    "check_outputs",
    "check_partitions",
    "check_seconds",
    "check_settings",
    "check_worker",
    "done",
    "facts",
    "held_items",
    "move",
    "new_item",
]
