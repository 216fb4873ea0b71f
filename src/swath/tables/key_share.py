"""How far a key is from the first key of a table to the last, for progress displays only."""

import math
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any


def estimate_key_share(
    reached: Sequence[Any] | None, *, first: Sequence[Any] | None, last: Sequence[Any] | None, is_text: bool
) -> float | None:
    """Return how far a key is from the first to the last, if keys of this type can be interpolated.

    Only the first column counts. `reached` is None before the first key.
    """
    if reached is None:
        return 0.0
    if first is None or last is None:
        return None
    parsers = _PARSERS[1:] if is_text else _PARSERS
    low, here, high = (_to_number(value[0], parsers) for value in (first, reached, last))
    if low is None or here is None or high is None or high <= low:
        return None
    return max(0.0, min(1.0, (here - low) / (high - low)))


def _to_number(value: Any, parsers: Sequence[Callable[[Any], float]]) -> float | None:
    for parse in parsers:
        try:
            number = float(parse(value))
        except (TypeError, ValueError, AttributeError, OverflowError):
            continue
        return number if math.isfinite(number) else None
    return None


_PARSERS: Sequence[Callable[[Any], float]] = (
    float,  # not for text keys, which sort "10" before "9"; dates and UUIDs sort alike as text
    lambda text: datetime.fromisoformat(text).timestamp(),
    lambda text: uuid.UUID(text).int,
)
