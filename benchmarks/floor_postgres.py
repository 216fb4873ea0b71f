"""The floor on PostgreSQL: psycopg in pipeline mode, prepared set-based statements, one round trip a transaction."""

import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.floor import LEASE, Arrival, Counted, arrivals
from benchmarks.work import Web

# So that no plan depends on statistics, as swath's functions have it; planned once, as they are.
SESSION = (
    "SET enable_seqscan = off",
    "SET enable_hashjoin = off",
    "SET enable_mergejoin = off",
    "SET jit = off",
    "SET plan_cache_mode = force_generic_plan",
)


def _statements() -> dict[str, str]:
    found = {}
    for block in Path(__file__).with_suffix(".sql").read_text(encoding="utf-8").split("-- name: ")[1:]:
        name, _, text = block.partition("\n")
        found[name.strip()] = "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()
    for name in ("drain", "settle"):
        found[name] = found[name].replace("{intake}", found["intake"]).replace("{{}}", "{}")
    return found


STATEMENTS = _statements()


class PostgresFloor:
    def __init__(self, dsn: str, schema: str, *, partitions: int, first: int, web: Web) -> None:
        self._web = web
        self._partitions = partitions
        self._next = first
        self._db = psycopg.connect(
            dsn, autocommit=True, options=f"-c search_path={schema}", application_name="floor", prepare_threshold=0
        )
        for statement in SESSION:
            self._db.execute(statement)

    def cycle(self, batch: int, *, links: bool) -> Counted:
        token = secrets.randbits(62)
        for _ in range(self._partitions):  # until one has something ready
            self._next = (self._next + 1) % self._partitions
            rows = self._claim(self._next, batch, token, drain=links)
            if rows:
                break
        else:
            return Counted(0, 0)
        found = [link for row in rows for link in self._web.links(row[2])] if links else []
        self._settle(self._next, rows, token, arrivals(found, self._partitions))
        return Counted(len(rows), len(found))

    def close(self) -> None:
        self._db.close()

    def _claim(self, partition: int, batch: int, token: int, *, drain: bool) -> list[tuple[Any, ...]]:
        now = time.time_ns() // 1_000
        given = {
            "partition": partition,
            "now": now,
            "limit": batch,
            "token": token,
            "expires_at": now + LEASE,
            "fence": 0,
        }
        return self._transact(partition, ["drain", "take"] if drain else ["take"], given)

    def _settle(self, partition: int, rows: Sequence[tuple[Any, ...]], token: int, found: Sequence[Arrival]) -> None:
        mine = [one for one in found if one.partition == partition]
        others = [one for one in found if one.partition != partition]
        given = {
            "partition": partition,
            "now": time.time_ns() // 1_000,
            "fence": rows[0][0],
            "token": token,
            "positions": _array(str(row[1]) for row in rows),
            **_columns("", mine),
            "other_partitions": _array(str(one.partition) for one in others),
            **_columns("other_", others),
        }
        self._transact(partition, ["settle"], given)

    def _transact(self, partition: int, names: Sequence[str], given: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Lock, then look; everything in one round trip. The rows of the last statement are returned."""
        with self._db.pipeline():
            self._db.execute("BEGIN")
            self._db.execute(STATEMENTS["lock"], {"partition": partition})
            cursors = [self._db.execute(STATEMENTS[name], given, binary=True) for name in names]
            self._db.execute("COMMIT")
        return cursors[-1].fetchall()


def _columns(prefix: str, found: Sequence[Arrival]) -> dict[str, str]:
    return {
        f"{prefix}hashes": _array(f'"\\\\x{one.hash.hex()}"' for one in found),
        f"{prefix}lanes": _array(f'"{one.lane}"' for one in found),
        f"{prefix}keys": _array(f'"{one.key}"' for one in found),
    }


def _array(texts: Any) -> str:
    """An array as one literal, which is the cheapest way to send it. Nothing in a benchmark's key needs an escape."""
    return "{" + ",".join(texts) + "}"
