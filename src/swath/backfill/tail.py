"""TailFollower: how far a backfill with --follow may go among rows that are inserted while it runs.

A table assigns keys in order, but transactions commit in any order: rows with lower keys may appear behind the
greatest visible key. So a key is safe once every transaction that was running when the key was seen has ended. A key
that was drawn from a sequence in one transaction and inserted in another can still be missed.
"""

from typing import Any

from swath import Item, lease_clock
from swath.backfill.ranges import PlanStep, to_key
from swath.tables.table import Key, Table

POLL_SECONDS = 1.0

# A transaction that has not written yet has no number, but may have drawn a key. So running transactions are found by
# the lock that each holds on its own virtual id, which every role may see, unlike the details in pg_stat_activity.
_LIST_RUNNING = b"""
SELECT pg_snapshot_xmax(pg_current_snapshot())::text, ARRAY(
    SELECT l.virtualtransaction FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
    WHERE l.locktype = 'virtualxid' AND l.virtualxid = l.virtualtransaction AND a.datname = current_database()
        AND l.pid <> pg_backend_pid())
"""
_HAVE_ENDED = b"""
SELECT pg_snapshot_xmin(pg_current_snapshot()) >= %s::xid8 AND NOT EXISTS (
    SELECT FROM pg_locks WHERE locktype = 'virtualxid' AND virtualtransaction = ANY(%s))
"""


class TailFollower:
    """Finds the greatest key that no new row can precede."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._poll_at = 0.0  # on `lease_clock`

    def seconds_to_poll(self) -> float:
        """Return how long a step has to wait in this process; 0 if it need not."""
        return max(0.0, self._poll_at - lease_clock())

    def delay_step(self, step: PlanStep) -> Item:
        """Return a step's item, and let it wait for the polling interval when its turn comes.

        An absolute time in the item would be read by another machine, whose clock may differ.
        """
        self._poll_at = lease_clock() + POLL_SECONDS
        return step.to_item()

    async def find_next_step(self, step: PlanStep) -> Item | None:
        """Return the step that plans the rows inserted since, with a new key; None while there are none."""
        safe = step.safe or {"poll": 0}
        upto = step.upto
        if "key" in safe:
            if not await self._have_ended(safe):
                return None
            upto = to_key(safe["key"])
        seen = await self._find_greatest(step.after)
        if upto == step.after and not seen:
            return None
        following = step._replace(upto=upto, safe={"poll": safe["poll"] + 1, **seen})
        return following.to_item() if upto != step.after else self.delay_step(following)

    async def _find_greatest(self, after: Key | None) -> dict[str, Any]:
        """Return the greatest key and the transactions that are running.

        Read the key first: a transaction that starts later draws a greater one.
        """
        greatest = await self._table.find_last_key(after=after)
        if greatest is None:
            return {}
        if self._table.kind == "sqlite":
            return {"key": list(greatest)}
        async with self._table.transaction() as connection:
            xmax, running = await (await connection.execute(_LIST_RUNNING)).fetchone()
        return {"key": list(greatest), "xmax": xmax, "running": running}

    async def _have_ended(self, safe: dict[str, Any]) -> bool:
        """Return whether every transaction that was running has ended. SQLite has a single writer."""
        if self._table.kind == "sqlite":
            return True
        async with self._table.transaction() as connection:
            row = await (await connection.execute(_HAVE_ENDED, (safe["xmax"], safe["running"]))).fetchone()
        return bool(row[0])
