"""Settings: everything a scan can be told, checked, kept in its frontier and compared when it is resumed."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from swath import InvalidSetting, StoreURL, UsageError, mask_password

OUTS = (".jsonl", ".parquet")
STORE_SUFFIXES = ("", "-wal", "-shm", "-turn")  # of the files of a frontier in SQLite


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSettings:
    """One scan."""

    source: str
    against: str | None = None
    check: str | None = None
    fix: str | None = None
    key: str | None = None
    columns: tuple[str, ...] = ()
    out: str = "findings.jsonl"
    store: str | None = None
    workers: int = 4
    timeout: float = 60.0
    lease: float = 60.0
    recheck: bool = False
    fresh: bool = False

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InvalidSetting(f"--workers {self.workers}: at least 1")
        if self.timeout < 0.1:
            raise InvalidSetting(f"--timeout {self.timeout:g}: at least 0.1 s")
        if self.lease < 1:
            raise InvalidSetting(f"--lease {self.lease:g} s is too short; use at least 1s")
        if not self.out.endswith(OUTS):
            raise InvalidSetting(f"--out {self.out}: a name that ends in {' or '.join(OUTS)}")
        if self.against is None and self.check is None:
            raise UsageError("there is nothing to look for: give --check module:function, or --against another source")
        if self.against is not None and (self.check or self.fix):
            raise UsageError("--against compares two sources, and --check looks at one: give one of them")
        if self.against is None and self.columns:
            raise UsageError("--columns says what --against compares")
        if self.fresh and self.recheck:
            raise UsageError("--fresh begins anew and --recheck goes on from what was found: give one of them")
        if self.fresh and self.store is not None:
            raise UsageError(
                f"--fresh removes the store beside --out, not {mask_password(self.store)}: name another --store"
            )

    @property
    def lines(self) -> Path:
        """The file of findings that grows; Parquet is made of it in the end."""
        return Path(self.out if self.out.endswith(".jsonl") else f"{self.out}.jsonl")

    @property
    def store_path(self) -> Path:
        return Path(f"{self.out}.swath.db")

    @property
    def store_url(self) -> str:
        return self.store or f"sqlite:///{quote(str(self.store_path), errors='surrogateescape')}"

    @property
    def store_files(self) -> Sequence[str]:
        """What the frontier is kept in, as far as that is files."""
        url = StoreURL.parse(self.store_url)
        return [url.path + suffix for suffix in STORE_SUFFIXES] if url.scheme == "sqlite" else []

    def saved(self) -> dict[str, Any]:
        """What makes it this scan and no other."""
        return {
            "source": _named(self.source),
            "against": None if self.against is None else _named(self.against),
            "check": self.check,
            "key": self.key,
            "columns": list(self.columns),
        }


def _named(source: str) -> str:
    """A source as it is kept and shown: without a password, and the same from whichever directory."""
    return mask_password(source) if "://" in source else os.path.abspath(source)


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Sequence[str]:
    return [
        f"--{name} was {_said(before.get(name))} and is {_said(value)} now"
        for name, value in now.items()
        if before.get(name) != value
    ]


def _said(value: Any) -> str:
    if not value:
        return "not given"
    return ", ".join(value) if isinstance(value, list) else str(value)
