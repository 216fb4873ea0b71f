"""Follow: how far a backfill may go with rows that are inserted while it runs.

Keys are handed out in order and committed in any: the greatest key that can be seen may have lower ones behind it that
commit later. So a key is gone up to only when every transaction that was running when it was seen has ended. What was
drawn from a sequence in one transaction and inserted in another cannot be known of.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from swath.backfill.ranges import Step, key
from swath.core.item import Item
from swath.tables.table import Key, Table

LOOK_SECONDS = 1.0

# A transaction that has written nothing yet has no number, and may have drawn a key: so who is running is told by the
# lock that every transaction holds on itself, which any role may see, in contrast to what pg_stat_activity tells.
_MARK = b"""
SELECT pg_snapshot_xmax(pg_current_snapshot())::text, ARRAY(
    SELECT l.virtualtransaction FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
    WHERE l.locktype = 'virtualxid' AND l.virtualxid = l.virtualtransaction AND a.datname = current_database()
        AND l.pid <> pg_backend_pid())
"""
_ENDED = b"""
SELECT pg_snapshot_xmin(pg_current_snapshot()) >= %s::xid8 AND NOT EXISTS (
    SELECT FROM pg_locks WHERE locktype = 'virtualxid' AND virtualtransaction = ANY(%s))
"""


def later(step: Step) -> Item:
    """A step that is taken in a moment."""
    return step.item()._replace(not_before=datetime.now(UTC) + timedelta(seconds=LOOK_SECONDS))


class Follower:
    """Looks for the key up to which nothing can come any more."""

    def __init__(self, table: Table) -> None:
        self._table = table

    async def next_step(self, step: Step) -> Item | None:
        """The step that plans what has come since, under a key of its own; None while there is nothing new."""
        safe = step.safe or {"look": 0}
        upto = step.upto
        if "key" in safe:
            if not await self._ended(safe):
                return None
            upto = key(safe["key"])
        seen = await self._seen(step.after)
        if upto == step.after and not seen:
            return None
        onward = step._replace(upto=upto, safe={"look": safe["look"] + 1, **seen})
        return onward.item() if upto != step.after else later(onward)

    async def _seen(self, after: Key | None) -> dict[str, Any]:
        """The greatest key there is now, and who was running then. The key is read first: whoever begins later is
        handed a greater one."""
        greatest = await self._table.find_last_key(after=after)
        if greatest is None:
            return {}
        if self._table.kind == "sqlite":
            return {"key": list(greatest)}
        async with self._table.transaction() as connection:
            xmax, running = await (await connection.execute(_MARK)).fetchone()
        return {"key": list(greatest), "xmax": xmax, "running": running}

    async def _ended(self, safe: dict[str, Any]) -> bool:
        """Whether every transaction has ended that was running when the key was seen. SQLite has one at a time."""
        if self._table.kind == "sqlite":
            return True
        async with self._table.transaction() as connection:
            row = await (await connection.execute(_ENDED, (safe["xmax"], safe["running"]))).fetchone()
        return bool(row[0])
