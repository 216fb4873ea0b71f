"""ScanSettings: the settings of a scan, validated, and compared when a scan resumes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from swath import InvalidSetting, StoreURL, UsageError, mask_password
from swath.tables.canonical.relaxations import parse_relaxations

OUTPUT_SUFFIXES = (".jsonl", ".parquet")
STORE_SUFFIXES = ("", "-wal", "-shm", "-turn")  # of the files of an SQLite frontier


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSettings:
    """One scan."""

    source: str
    against: str | None = None
    check: str | None = None
    fix: str | None = None
    key: str | None = None
    columns: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()
    out: str = "findings.jsonl"
    store: str | None = None
    workers: int = 4
    timeout: float = 60.0
    lease: float = 60.0
    recheck: bool = False
    fresh: bool = False

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InvalidSetting(f"--workers {self.workers} is too small; use at least 1")
        if self.timeout < 0.1:
            raise InvalidSetting(f"--timeout {self.timeout:g} s is too short; use at least 100ms")
        if self.lease < 1:
            raise InvalidSetting(f"--lease {self.lease:g} s is too short; use at least 1s")
        if not self.out.endswith(OUTPUT_SUFFIXES):
            raise InvalidSetting(f"--out {self.out} must end in {' or '.join(OUTPUT_SUFFIXES)}")
        if self.against is None and self.check is None:
            raise UsageError("there is nothing to check. Give --check module:function, or --against another source")
        if self.against is not None and (self.check or self.fix):
            raise UsageError("--against compares two sources, and --check checks one. Give only one of them")
        if self.against is None and self.columns:
            raise UsageError("--columns needs --against: it names the columns to compare")
        if self.against is None and self.loose:
            raise UsageError("--loose needs --against: it says which values of two tables are equal")
        object.__setattr__(self, "loose", parse_relaxations(self.loose))
        if self.fresh and self.recheck:
            raise UsageError("--fresh discards the findings that --recheck needs. Give only one of them")
        if self.fresh and self.store is not None:
            raise UsageError(
                f"--fresh removes only the default store, not {mask_password(self.store)}. Choose another --store"
            )

    @property
    def findings_path(self) -> Path:
        """The JSON Lines file that grows during the scan. A Parquet file is made from it at the end."""
        return Path(self.out if self.out.endswith(".jsonl") else f"{self.out}.jsonl")

    @property
    def store_path(self) -> Path:
        return Path(f"{self.out}.swath.db")

    @property
    def store_url(self) -> str:
        return self.store or f"sqlite:///{quote(str(self.store_path), errors='surrogateescape')}"

    @property
    def store_files(self) -> Sequence[str]:
        """The files of the frontier, if it is an SQLite database."""
        url = StoreURL.parse(self.store_url)
        return [url.path + suffix for suffix in STORE_SUFFIXES] if url.scheme == "sqlite" else []

    def get_identity(self) -> dict[str, Any]:
        """Return the settings that must be the same when a scan resumes."""
        return {
            "source": _normalize_source(self.source),
            "against": None if self.against is None else _normalize_source(self.against),
            "check": self.check,
            "key": self.key,
            "columns": list(self.columns),
            "loose": list(self.loose),
        }


def _normalize_source(source: str) -> str:
    """Return a source without its password, and a path as absolute."""
    return mask_password(source) if "://" in source else os.path.abspath(source)


def list_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Sequence[str]:
    return [
        f"--{name} was {_format(before.get(name))} and is {_format(value)} now"
        for name, value in now.items()
        if (before.get(name) or None) != (value or None)
    ]


def _format(value: Any) -> str:
    if not value:
        return "not given"
    return ", ".join(value) if isinstance(value, list) else str(value)
