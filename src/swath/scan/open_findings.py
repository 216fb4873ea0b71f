"""OpenFindings: the findings of a file that are still open, by the latest round of each key."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from swath.files.errors import OutputDamaged

EXAMPLES = 3
BATCH_LINES = 10_000

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


class OpenKey(NamedTuple):
    """A key with open findings: their number by code, and the lines."""

    key: str
    codes: Mapping[str, int]
    findings: list[dict[str, Any]]


def read_findings(path: Path, length: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file of findings, up to its committed length."""
    if not length:
        return
    try:
        with path.open("rb") as file:
            for line in file:
                if (length := length - len(line)) < 0:
                    return
                yield json.loads(line)
        if length:
            raise EOFError(f"{length:,} bytes are missing at the end")
    except (FileNotFoundError, EOFError, ValueError) as error:
        raise OutputDamaged(f"{path} was changed or damaged ({error}). Restore it from a copy") from error


def pick_examples(findings: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[str, str]]]:
    """Return some keys and messages for each code."""
    shown: dict[str, list[tuple[str, str]]] = {}
    for finding in findings:
        some = shown.setdefault(finding["code"], [])
        if len(some) < EXAMPLES:
            some.append((finding["key"], finding["message"]))
    return shown


class OpenFindings:
    """The keys of a file of findings, in a temporary database on disk: there may be too many for memory."""

    def __init__(self, findings: Iterable[Mapping[str, Any]]) -> None:
        self._connection = sqlite3.connect("", check_same_thread=False)  # used by one thread at a time
        self._connection.executescript(_TABLES)
        chunk: list[Mapping[str, Any]] = []
        for finding in findings:
            chunk.append(finding)
            if len(chunk) == BATCH_LINES:
                self._insert(chunk)
                chunk = []
        self._insert(chunk)

    def close(self) -> None:
        self._connection.close()

    def list_findings(self) -> Iterator[dict[str, Any]]:
        """Yield the open findings, in the order of the file."""
        for (line,) in self._connection.execute(_OPEN):
            yield json.loads(line)

    def list_keys(self) -> Iterator[OpenKey]:
        """Yield the keys with open findings. The lines of one key and round are adjacent."""
        current: OpenKey | None = None
        for finding in self.list_findings():
            if current is None or current.key != finding["key"]:
                if current is not None:
                    yield current
                current = OpenKey(finding["key"], {}, [])
            current.findings.append(finding)
            codes = dict(current.codes)
            codes[finding["code"]] = codes.get(finding["code"], 0) + 1
            current = current._replace(codes=codes)
        if current is not None:
            yield current

    def _insert(self, chunk: list[Mapping[str, Any]]) -> None:
        self._connection.executemany(_LAST, [(_escape_surrogates(one["key"]), one["round"]) for one in chunk])
        self._connection.executemany(
            "INSERT INTO open VALUES (?, ?, ?)",
            [
                (_escape_surrogates(one["key"]), one["round"], json.dumps(one))
                for one in chunk
                if one["state"] == "open"
            ],
        )


def _escape_surrogates(key: str) -> str:
    return key.encode(errors="backslashreplace").decode()
