"""The path of page number n of an ordinary host. Paths are computed in both directions, so nothing is stored."""

import re
from urllib.parse import unquote

SECTIONS = ("news", "sport", "arts", "science", "travel", "food", "law", "music", "film", "books", "city", "weather")
SLUGS = ("quiet", "long", "first", "open", "early", "small", "bright", "north", "plain", "round", "late")

_NUMBER = re.compile(r"(\d{1,9})(?:\.html|/)?$")


def page_target(host: int, number: int) -> str:
    """Return the path and query of a page, percent-encoded as in the WHATWG URL standard."""
    if number == 0:
        return "/"
    section = SECTIONS[(number // 10 + host) % len(SECTIONS)]
    match (number * 7 + host) % 10:
        case 0 | 1 | 2 | 3:
            return f"/{section}/{number}.html"
        case 4 | 5:
            return f"/{section}/{SLUGS[number % 11]}-{SLUGS[(number // 11 + host) % 11]}-{number}/"
        case 6:
            return f"/view?id={number}"
        case 7:
            return f"/{section}/item?lang=en&id={number}"
        case 8:
            return f"/caf%C3%A9/{number}"
        case _:
            return f"/%E6%97%A5%E6%9C%AC/{number}"


def page_number(host: int, target: str) -> int | None:
    """Return the number of the page that has this target; None if there is none."""
    if target == "/":
        return 0
    found = _NUMBER.search(target)
    if found is None:
        return None
    number = int(found[1])
    return number if page_target(host, number) == target else None


def unescape_target(target: str, charset: str) -> str:
    """Return the target with letters in place of escapes such as %C3%A9, if the charset can encode them."""
    plain = unquote(target)
    try:
        plain.encode(charset)
    except UnicodeEncodeError:
        return target
    return plain
