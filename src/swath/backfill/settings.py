"""BackfillSettings: the settings of a backfill, validated."""

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from swath import InvalidSetting, UsageError
from swath.backfill.statement import check_parentheses, check_set, check_sql

MAX_NAME = 40
MAX_WORKERS = 500


@dataclass(frozen=True, slots=True)
class BackfillSettings:
    """One backfill. Resuming it requires the same table and operation; the other settings may change."""

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
            found = " and ".join(f"--{name}" for name in given) or "none of them"
            raise UsageError(f"give exactly one of --set, --sql and --run; found {found}")
        if self.sql is not None:
            check_sql(self.sql)
            if self.where is not None:
                raise UsageError(
                    "--where works with --set and --run only. Put the condition into the statement of --sql"
                )
        if self.set is not None:
            check_set(self.set)
        if self.where is not None:
            check_parentheses("--where", self.where)
        if not 1 <= self.workers <= MAX_WORKERS:
            raise InvalidSetting(f"--workers {self.workers} is out of range; use 1 to {MAX_WORKERS}")
        if self.batch < 1:
            raise InvalidSetting(f"--batch {self.batch} is too small; use at least 1 row")
        if self.target_time < 0.01:
            raise InvalidSetting(f"--target-time {self.target_time:g} s is too short; use at least 10ms")
        if self.lease < 1:
            raise InvalidSetting(f"--lease {self.lease:g} s is too short; use at least 1s")
        if self.max_active is not None:
            if self.max_active < 0:
                raise InvalidSetting(f"--max-active {self.max_active} is negative; use 0 or more")
            if urlsplit(self.db).scheme == "sqlite":
                raise UsageError("--max-active needs PostgreSQL: SQLite cannot count active sessions. Omit it")
        if self.follow and self.last is not None:
            raise UsageError("--follow never ends, but --to sets an end. Give only one of them")
        if self.name is not None and not re.fullmatch(rf"[a-z_][a-z0-9_]{{0,{MAX_NAME - 1}}}", self.name):
            raise InvalidSetting(
                f"--name {self.name!r} is not valid. Use up to {MAX_NAME} lowercase letters, digits and _, "
                "not starting with a digit"
            )

    @property
    def schema(self) -> str:
        """The schema for a frontier in the table's database."""
        if self.name is not None:
            return self.name
        plain = re.sub(r"[^a-z0-9_]+", "_", self.table.lower())
        return f"swath_backfill_{plain}"[:MAX_NAME]

    @property
    def store_url(self) -> str:
        """The frontier's URL: in the table's database unless --store is given."""
        if self.store is not None:
            return self.store
        separator = "&" if urlsplit(self.db).query else "?"
        return f"{self.db}{separator}schema={self.schema}"

    def get_purpose(self) -> dict[str, Any]:
        """Return the settings that must be the same when a backfill resumes."""
        names = ("table", "key", "set", "where", "sql", "run", "first", "last")
        found: dict[str, Any] = json.loads(json.dumps({name: getattr(self, name) for name in names}))
        return found
