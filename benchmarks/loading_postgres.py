"""Load a frontier in PostgreSQL with COPY. Indexes are dropped first and created again from the catalog at the end."""

import asyncio
import time
from collections.abc import Iterator
from hashlib import blake2b

import psycopg
from psycopg import sql

from benchmarks.loading import A_DAY, LEVEL, RANK, Plan, check, create, make_plan
from benchmarks.settings import ITEMS_PER_LANE
from benchmarks.work import page

TABLES = ("lane", "lane_state", "item", "seen")
ROWS_PER_WRITE = 2_000

Connection = psycopg.Connection[tuple[object, ...]]


def load(dsn: str, url: str, schema: str, *, items: int, partitions: int) -> int:
    """Create the frontier and return its number of items."""
    asyncio.run(create(url, partitions=partitions))
    planned = make_plan(items, partitions)
    with _connect(dsn, schema) as connection, _connect(dsn, schema) as other:
        connection.execute("SET maintenance_work_mem = '512MB'")
        restore = _drop_indexes(connection, schema)
        _copy_lanes(connection, planned)
        _copy_items(connection, other, planned)
        for statement in restore:
            connection.execute(statement)
        _write_states(connection, planned)
        for table in TABLES:
            connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(sql.Identifier(table)))
        connection.execute("CHECKPOINT")
    asyncio.run(check(url, planned.items))
    return planned.items


def block(dsn: str, schema: str, *, lanes_of_ten: int) -> None:
    """Block this number of every ten lanes for a day, and make the others ready."""
    now = time.time_ns() // 1_000
    with _connect(dsn, schema) as connection:
        connection.execute(
            """
            UPDATE lane_state AS l SET
                ready_at = CASE WHEN l.lane %% 10 < %(blocked)s THEN %(tomorrow)s ELSE %(now)s END,
                blocked_until = CASE WHEN l.lane %% 10 < %(blocked)s THEN %(tomorrow)s ELSE 0 END
            WHERE (l.blocked_until > 0) <> (l.lane %% 10 < %(blocked)s)
            """,
            {"blocked": lanes_of_ten, "now": now, "tomorrow": now + A_DAY},
        )
        connection.execute("VACUUM (ANALYZE) lane_state")


def _connect(dsn: str, schema: str) -> Connection:
    return psycopg.connect(dsn, autocommit=True, options=f"-c search_path={schema}")


def _drop_indexes(connection: Connection, schema: str) -> list[sql.Composed]:
    """Drop the indexes, which would slow down COPY, and return the statements that create them again."""
    restore, drop = [], []
    constraints = connection.execute(
        "SELECT c.relname, k.conname, pg_get_constraintdef(k.oid) FROM pg_constraint AS k "
        "JOIN pg_class AS c ON c.oid = k.conrelid WHERE k.contype IN ('p', 'u') "
        "AND c.relnamespace = %s::regnamespace AND c.relname = ANY (%s)",
        (schema, list(TABLES)),
    ).fetchall()
    for table, name, definition in constraints:
        where = sql.SQL("ALTER TABLE {} ").format(sql.Identifier(str(table)))
        drop.append(where + sql.SQL("DROP CONSTRAINT {}").format(sql.Identifier(str(name))))
        add = sql.SQL("ADD CONSTRAINT {} ").format(sql.Identifier(str(name)))
        restore.append(where + add + _verbatim(definition))
    indexes = connection.execute(
        "SELECT i.indexname, i.indexdef FROM pg_indexes AS i WHERE i.schemaname = %s AND i.tablename = ANY (%s) "
        "AND i.indexname NOT IN (SELECT conname FROM pg_constraint WHERE connamespace = %s::regnamespace)",
        (schema, list(TABLES), schema),
    ).fetchall()
    for name, definition in indexes:
        drop.append(sql.SQL("DROP INDEX {}").format(sql.Identifier(str(name))))
        restore.append(sql.Composed([_verbatim(definition)]))
    for statement in drop:
        connection.execute(statement)
    return restore


def _verbatim(definition: object) -> sql.SQL:
    """Return the definition of an index in the catalog as SQL."""
    return sql.SQL(str(definition))


def _copy_lanes(connection: Connection, planned: Plan) -> None:
    with connection.cursor() as cursor, cursor.copy("COPY lane (number, partition, name) FROM STDIN") as copy:
        for partition, lanes in enumerate(planned.partitions):
            for lane in lanes:
                copy.write(f"{lane.number}\t{partition}\t{lane.name}\n")
    counts = "{" + ",".join(str(ITEMS_PER_LANE if level == LEVEL else 0) for level in range(8)) + "}"
    columns = ["version", "ready_at", "last_at", "blocked_until", "lane", "in_flight", "partition", "level", "paused"]
    columns.append("counts")
    zeros = _list_other_columns(connection, "lane_state", columns)
    rest = "\t0" * len(zeros)
    statement = f"COPY lane_state ({', '.join([*columns, *zeros])}) FROM STDIN"
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for partition, lanes in enumerate(planned.partitions):
            for lane in lanes:
                copy.write(f"1\t{lane.ready_at}\t0\t0\t{lane.number}\t0\t{partition}\t{LEVEL}\tf\t{counts}{rest}\n")


def _list_other_columns(connection: Connection, table: str, given: list[str]) -> list[str]:
    """Return the other columns that need a value. They are counters, which start at zero in a new lane."""
    rows = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped "
        "AND attnotnull AND NOT atthasdef AND attname <> ALL (%s)",
        (table, given),
    ).fetchall()
    return [str(name) for (name,) in rows]


def _copy_items(connection: Connection, other: Connection, planned: Plan) -> None:
    """Copy items and hashes in the order of their positions, into both tables at once."""
    columns = "place, position, span, lane, partition, rank, attempts, key"
    with (
        connection.cursor() as cursor,
        other.cursor() as other_cursor,
        cursor.copy(f"COPY item ({columns}) FROM STDIN") as items,
        other_cursor.copy("COPY seen (position, partition, hash) FROM STDIN") as seen,
    ):
        for item_rows, seen_rows in _rows(planned):
            items.write("".join(item_rows))
            seen.write("".join(seen_rows))


def _rows(planned: Plan) -> Iterator[tuple[list[str], list[str]]]:
    items: list[str] = []
    seen: list[str] = []
    for partition, lanes in enumerate(planned.partitions):
        position = 0
        for number in range(ITEMS_PER_LANE):
            for lane in lanes:
                position += 1
                key = page(lane.name, number)
                digest = (blake2b(key.encode(), digest_size=16).digest() + lane.hash).hex()
                items.append(f"{position}\t{position}\t1\t{lane.number}\t{partition}\t{RANK}\t0\t{key}\n")
                seen.append(f"{position}\t{partition}\t\\\\x{digest}\n")
                if len(items) == ROWS_PER_WRITE:
                    yield items, seen
                    items, seen = [], []
    yield items, seen


def _write_states(connection: Connection, planned: Plan) -> None:
    for partition, lanes in enumerate(planned.partitions):
        items = len(lanes) * ITEMS_PER_LANE
        connection.execute(
            "UPDATE partition_state SET version = version + 1, next_position = %s, next_place = %s, ready = %s, "
            "lanes = %s, next_ready_at = %s WHERE partition = %s",
            (items + 1, items + 1, items, len(lanes), lanes[0].ready_at if lanes else None, partition),
        )
    connection.execute("VACUUM (ANALYZE) partition_state")
