"""Detect traps: URLs that a site can generate without end and that no reader would miss.

Each rule looks at a single normalised URL, so all machines decide alike and `explain` can give the reason. Traps that
no single URL reveals are limited by --depth and --max-pages-per-host. Session ids in parameters are removed
(`normalise.strip_session`), because the page is real. Session ids in directories are refused, because the server would
redirect a URL without one to a new one.
"""

import re
from typing import Final

TRAPS: Final = {
    "path-depth": "its path has too many segments",
    "path-repeats": "its path repeats itself",
    "query-length": "its query is too long",
    "query-params": "its query has too many parameters",
    "query-repeats": "its query repeats a parameter",
    "query-nested": "its query contains a URL that is nested twice",
    "calendar": "it belongs to an endless calendar",
    "session": "its path contains a session id",
}

MAX_SEGMENTS = 20
MAX_SAME_SEGMENT = 3
MAX_CYCLES = 2
MAX_QUERY = 1_024
MAX_PARAMS = 20
MAX_SAME_PARAM = 5
MAX_SAME_PAIR = 2
MAX_DATES = 3
FUTURE_YEARS = 3  # events are announced up to this far ahead
OLDEST_YEAR = 1_700  # digitised newspapers go back to about this year

# Escaped three times: each pass through a login or language switch escapes the URL again.
_NESTED = "%25252"
# Each starts with a character class, so the regex search can skip most of a URL quickly.
_DATE = re.compile(r"[-/=_.]([0-9]{4})([-/_.]?)(?:0?[1-9]|1[0-2])(?:(?<=[0-9]{2})\2(0[1-9]|[12][0-9]|3[01]))?(?![0-9])")
_YEAR = re.compile(r"[?&;_-](?:year|yr|jahr|annee|cal_?y|y)=([0-9]{4,5})(?![0-9])", re.IGNORECASE)
_WITH_YEAR = re.compile(r"[?&;_-](?:month|mon|monat|mois|cal_?m|m|week|day)=", re.IGNORECASE)
_CALENDAR = re.compile(r"calend|kalend|event|agenda|archive|month|date", re.IGNORECASE)
_SESSION_SEGMENT = re.compile(
    r"/\((?:[A-Za-z]\([0-9A-Za-z_-]{20,}\))+\)/|/\([0-9a-z]{24}\)/|/sid[=/-][0-9a-f]{32}(?=/|$)"
)


def find_trap(url: str, *, year: int) -> str | None:
    """Return None if a normalised URL may be crawled in this year; otherwise one of `TRAPS`."""
    path = url
    newest = year + FUTURE_YEARS
    if "?" in url:
        path, _, query = url.partition("?")
        found = _find_query_trap(query, newest)
        if found is not None:
            return found
    # Most paths are short, and cannot repeat segments too often.
    if path.count("/") >= 5:
        found = _find_path_trap(path)
        if found is not None:
            return found
    if ("(" in path or "/sid" in path) and _SESSION_SEGMENT.search(path):
        return "session"
    days = 0
    for date in _DATE.finditer(url, url.find("/", 8)):
        if date[2]:  # without separators it is probably an id
            days += date[3] is not None
            if days > MAX_DATES or (not OLDEST_YEAR <= int(date[1]) <= newest and _is_date(url, date)):
                return "calendar"
    return None


def _is_date(url: str, date: re.Match[str]) -> bool:
    """Return whether the match is a full date, or a year and month in a calendar URL; /forum/4321/12 is neither."""
    return date[3] is not None or _CALENDAR.search(url) is not None


def _find_path_trap(path: str) -> str | None:
    segments = path.split("/")[3:]
    if segments[-1] == "":
        segments.pop()
    if len(segments) > MAX_SEGMENTS:
        return "path-depth"
    if len(set(segments)) == len(segments):
        return None
    # Numbers may repeat in real paths: /2012/12/12/12.
    if any(segments.count(one) > MAX_SAME_SEGMENT for one in segments if not one.isdecimal()):
        return "path-repeats"
    for period in range(1, len(segments) // (MAX_CYCLES + 1) + 1):
        for start in range(len(segments) - period * (MAX_CYCLES + 1) + 1):
            cycle = segments[start : start + period]
            end = start + period * (MAX_CYCLES + 1)
            if segments[start:end] == cycle * (MAX_CYCLES + 1) and not all(one.isdecimal() for one in cycle):
                return "path-repeats"
    return None


def _find_query_trap(query: str, newest: int) -> str | None:
    if len(query) > MAX_QUERY:
        return "query-length"
    if _NESTED in query:
        return "query-nested"
    params = query.count("&")
    if not params:
        return None
    if params >= MAX_PARAMS:
        return "query-params"
    pairs = query.split("&")
    if params >= MAX_SAME_PAIR:
        if len(set(pairs)) != len(pairs) and any(pairs.count(one) > MAX_SAME_PAIR for one in pairs):
            return "query-repeats"
        if params >= MAX_SAME_PARAM:
            names = [pair.partition("=")[0] for pair in pairs]
            if any(names.count(one) > MAX_SAME_PARAM for one in set(names)):
                return "query-repeats"
    year = _YEAR.search("&" + query)
    if year is not None and not OLDEST_YEAR <= int(year[1]) <= newest and _WITH_YEAR.search("&" + query):
        return "calendar"
    return None
