"""Everything that a backfill can be told."""

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from swath.backfill.statement import check_closed, check_set, check_sql
from swath.core.errors import InvalidSetting, UsageError

MAX_NAME = 40
MAX_WORKERS = 500


@dataclass(frozen=True, slots=True)
class BackfillSettings:
    """One backfill. What it does is fixed when it begins; how fast it does it is not."""

    db: str
    table: str
    key: tuple[str, ...] | None = None
    set: str | None = None
    where: str | None = None
    sql: str | None = None
    run: str | None = None
    store: str | None = None
    name: str | None = None
    first: tuple[str, ...] | None = None  # --from
    last: tuple[str, ...] | None = None  # --to
    follow: bool = False
    force: bool = False
    workers: int = 4
    batch: int = 1_000
    target_time: float = 0.5
    timeout: float = 600.0
    lease: float = 60.0
    max_lag: float | None = None
    lag_query: str | None = None
    max_active: int | None = None
    pause_file: str | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("set", "sql", "run") if getattr(self, name) is not None]
        if len(given) != 1:
            said = " and ".join(f"--{name}" for name in given) or "none of them"
            raise UsageError(f"say what to do with the rows by one of --set, --sql and --run: {said} was given")
        if self.sql is not None:
            check_sql(self.sql)
            if self.where is not None:
                raise UsageError("--where goes with --set and --run: write the condition into the statement of --sql")
        if self.set is not None:
            check_set(self.set)
        if self.where is not None:
            check_closed("--where", self.where)
        if not 1 <= self.workers <= MAX_WORKERS:
            raise InvalidSetting(f"--workers {self.workers}: 1 to {MAX_WORKERS}")
        if self.batch < 1:
            raise InvalidSetting(f"--batch {self.batch}: at least one row")
        if self.target_time < 0.01:
            raise InvalidSetting(f"--target-time {self.target_time:g} s: at least 10ms")
        if self.lease < 1:
            raise InvalidSetting(f"--lease {self.lease:g} s is too short; use at least 1s")
        if self.max_active is not None:
            if self.max_active < 0:
                raise InvalidSetting(f"--max-active {self.max_active}: at least 0")
            if urlsplit(self.db).scheme == "sqlite":
                raise UsageError("--max-active: SQLite does not tell how many others are at work. Leave it out")
        if self.follow and self.last is not None:
            raise UsageError("--follow has no end, and --to is one: give one of them")
        if self.name is not None and not re.fullmatch(rf"[a-z_][a-z0-9_]{{0,{MAX_NAME - 1}}}", self.name):
            raise InvalidSetting(
                f"--name {self.name!r}: small letters, digits and _, at most {MAX_NAME}, and no digit first"
            )

    @property
    def schema(self) -> str:
        """The schema that the frontier has beside the table."""
        if self.name is not None:
            return self.name
        plain = re.sub(r"[^a-z0-9_]+", "_", self.table.lower())
        return f"swath_backfill_{plain}"[:MAX_NAME]

    @property
    def store_url(self) -> str:
        """Where the frontier is: beside the table, unless it was said otherwise."""
        if self.store is not None:
            return self.store
        separator = "&" if urlsplit(self.db).query else "?"
        return f"{self.db}{separator}schema={self.schema}"

    def purpose(self) -> dict[str, Any]:
        """What must be the same when a backfill goes on."""
        names = ("table", "key", "set", "where", "sql", "run", "first", "last")
        found: dict[str, Any] = json.loads(json.dumps({name: getattr(self, name) for name in names}))
        return found
