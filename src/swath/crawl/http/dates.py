"""Dates in headers."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_DATE = 100  # characters


def parse_date(text: str | None) -> datetime | None:
    """Return the date of a header such as `Date` or `Expires`; None if there is none, or if it is not valid."""
    try:
        date = parsedate_to_datetime((text or "")[:MAX_DATE])
        return date.astimezone(UTC) if date.tzinfo is not None else None
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
