"""Numbers, times and foreign text as strings for people.

Keys, reasons and error texts may contain anything. Every command passes them through `escape` before it prints them,
so that a crawled page cannot move the terminal's cursor.
"""

import json
from datetime import datetime
from typing import Any

from swath import find_passwords

MASK = "***"
MIN_SECRET_LENGTH = 4  # a shorter secret is masked only where it stands in a URL: it may be part of any word


def escape(text: str, *, keep: str = "") -> str:
    """Replace every character that does not print with its escape sequence, except those in `keep`.

    Python counts as not printable: control characters (C0, DEL and C1), characters that change the direction of text
    or have no width, tags, separators other than the space, lone surrogates, and characters without a meaning.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def dump_json(value: Any, *, indent: int | None = None, ensure_ascii: bool = False) -> str:
    """Return JSON whose strings have escapes in place of characters that do not print.

    Other characters stay readable, unless `ensure_ascii` escapes all that are not ASCII.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=ensure_ascii)
    if text.isprintable():
        return text
    # Outside of strings, only the newlines of an indented text do not print.
    return "".join(c if c.isprintable() or (c == "\n" and indent is not None) else json.dumps(c)[1:-1] for c in text)


def mask_secrets(text: str, url: str) -> str:
    """Mask the passwords of a store URL in `text`, which may quote the URL or only part of it."""
    for secret in sorted(find_passwords(url), key=len, reverse=True):
        if len(secret) >= MIN_SECRET_LENGTH:
            text = text.replace(secret, MASK)
        else:
            text = text.replace(f":{secret}@", f":{MASK}@").replace(f"password={secret}", f"password={MASK}")
    return text


def pluralize(number: int, noun: str) -> str:
    """Return `1 item` or `1,234 items`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_duration(seconds: float) -> str:
    """Return a duration in d, h or min if that gives at least 2, else in s, and in ms below 0.1 s."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    if seconds >= 0.1:
        return f"{seconds:.3g} s"
    milliseconds = round(seconds * 1000, 1 if seconds < 0.01 else None)
    return f"{milliseconds:g} ms" if milliseconds else "0 s"


def format_size(count: int) -> str:
    """Return a number of bytes in bytes, kB, MB, GB or TB."""
    if count < 1000:
        return pluralize(count, "byte")
    amount, unit = count / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.1f} {unit}"


def format_time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def format_limits(min_interval: float, concurrency: int | None) -> str:
    """Describe the limits of a lane."""
    interval = f"one every {format_duration(min_interval)}" if min_interval else "no interval"
    return f"{interval}, {format_concurrency(concurrency)} at once"


def format_concurrency(concurrency: int | None) -> str:
    """Return a maximum of items in flight, or `unlimited`."""
    return f"{concurrency:,}" if concurrency else "unlimited"


def format_json(value: Any) -> str:
    """Return a value as JSON on one line."""
    return dump_json(value)
