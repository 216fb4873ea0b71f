"""Ledger: which findings are open, by the last word on each key."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from swath.files.errors import OutputDamaged

EXAMPLES = 3
AT_ONCE = 10_000  # lines

_TABLES = """
CREATE TABLE last (key TEXT PRIMARY KEY, round INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE open (key TEXT NOT NULL, round INTEGER NOT NULL, line TEXT NOT NULL);
"""
_LAST = """
INSERT INTO last VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET round = max(round, excluded.round)
"""
_OPEN = """
SELECT open.line FROM open JOIN last ON last.key = open.key AND last.round = open.round ORDER BY open.rowid
"""


class Open(NamedTuple):
    """A key with open findings: how many by code, and the lines themselves."""

    key: str
    codes: Mapping[str, int]
    findings: list[dict[str, Any]]


def lines_of(path: Path, length: int) -> Iterator[dict[str, Any]]:
    """The findings in a file, up to its committed length."""
    if not length:
        return
    try:
        with path.open("rb") as file:
            for line in file:
                if (length := length - len(line)) < 0:
                    return
                yield json.loads(line)
        if length:
            raise EOFError(f"it ends {length:,} bytes too early")
    except (FileNotFoundError, EOFError, ValueError) as error:
        raise OutputDamaged(f"{path} is not as it was written ({error}): put it back from a copy") from error


def examples(findings: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[str, str]]]:
    """Some keys and messages for each code."""
    shown: dict[str, list[tuple[str, str]]] = {}
    for finding in findings:
        some = shown.setdefault(finding["code"], [])
        if len(some) < EXAMPLES:
            some.append((finding["key"], finding["message"]))
    return shown


class Ledger:
    """All keys of a file of findings, in a temporary database: there may be more than there is memory for."""

    def __init__(self, findings: Iterable[Mapping[str, Any]]) -> None:
        self._connection = sqlite3.connect("", check_same_thread=False)  # used by one thread at a time
        self._connection.executescript(_TABLES)
        chunk: list[Mapping[str, Any]] = []
        for finding in findings:
            chunk.append(finding)
            if len(chunk) == AT_ONCE:
                self._take(chunk)
                chunk = []
        self._take(chunk)

    def close(self) -> None:
        self._connection.close()

    def findings(self) -> Iterator[dict[str, Any]]:
        """Those that are open, in the order in which they were written."""
        for (line,) in self._connection.execute(_OPEN):
            yield json.loads(line)

    def open_keys(self) -> Iterator[Open]:
        """The keys that have some. Those of one key and round were written together."""
        current: Open | None = None
        for finding in self.findings():
            if current is None or current.key != finding["key"]:
                if current is not None:
                    yield current
                current = Open(finding["key"], {}, [])
            current.findings.append(finding)
            codes = dict(current.codes)
            codes[finding["code"]] = codes.get(finding["code"], 0) + 1
            current = current._replace(codes=codes)
        if current is not None:
            yield current

    def _take(self, chunk: list[Mapping[str, Any]]) -> None:
        self._connection.executemany(_LAST, [(_stored(one["key"]), one["round"]) for one in chunk])
        self._connection.executemany(
            "INSERT INTO open VALUES (?, ?, ?)",
            [(_stored(one["key"]), one["round"], json.dumps(one)) for one in chunk if one["state"] == "open"],
        )


def _stored(key: str) -> str:
    return key.encode(errors="backslashreplace").decode()
