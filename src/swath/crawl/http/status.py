"""What a crawler does about an HTTP status: which ones are worth another attempt."""

from typing import Final

TRANSIENT: Final = frozenset({500, 502, 504, 507, 520, 521, 522, 523, 524, 525, 527, 530})
BUSY: Final = frozenset({429, 503})  # the host asks for fewer requests: pause the whole lane


def is_busy(status: int) -> bool:
    return status in BUSY


def is_retryable(status: int) -> bool:
    return status in BUSY or status in TRANSIENT
