"""Where page number n of an ordinary host lives. Paths are computed both ways, so that nothing is stored."""

import re
from urllib.parse import unquote

SECTIONS = ("news", "sport", "arts", "science", "travel", "food", "law", "music", "film", "books", "city", "weather")
SLUGS = ("quiet", "long", "first", "open", "early", "small", "bright", "north", "plain", "round", "late")

_NUMBER = re.compile(r"(\d{1,9})(?:\.html|/)?$")


def target_of(host: int, number: int) -> str:
    """The path and query of a page, percent-encoded as WHATWG does it."""
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


def number_of(host: int, target: str) -> int | None:
    """The page that has this target; None where no number of page has it."""
    if target == "/":
        return 0
    found = _NUMBER.search(target)
    if found is None:
        return None
    number = int(found[1])
    return number if target_of(host, number) == target else None


def spelled_out(target: str, charset: str) -> str:
    """The target as a careless author writes it, with letters in place of %C3%A9, where the charset has them."""
    plain = unquote(target)
    try:
        plain.encode(charset)
    except UnicodeEncodeError:
        return target
    return plain
