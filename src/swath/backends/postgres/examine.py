"""What is wrong with the server, the tables and the rights of a PostgreSQL store.

Only catalogs and statistics are read, so a store that cannot be opened can be examined, too.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from swath.backends.postgres.connections import AsyncConnection, connect
from swath.backends.postgres.errors import translate_errors
from swath.backends.postgres.location import PostgresLocation
from swath.backends.postgres.statements import FUNCTIONS
from swath.core.problem import Problem

LONG_SECONDS = 600.0  # a transaction that is open for longer keeps vacuum from removing dead rows
MIN_DEAD_ROWS = 100_000  # fewer are not worth a word
BEHIND_FACTOR = 5  # autovacuum is behind with this many times the dead rows at which it starts
MAX_SHOWN = 3

_AUTOVACUUM = """
SELECT c.relname, c.reltuples, coalesce(s.n_dead_tup, 0),
    coalesce((SELECT option_value::boolean FROM pg_options_to_table(c.reloptions)
        WHERE option_name = 'autovacuum_enabled'), true),
    current_setting('autovacuum')::boolean AND current_setting('track_counts')::boolean,
    current_setting('autovacuum_vacuum_threshold')::float + current_setting('autovacuum_vacuum_scale_factor')::float
        * greatest(c.reltuples, 0)
FROM pg_class AS c LEFT JOIN pg_stat_user_tables AS s ON s.relid = c.oid
WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s) AND c.relkind = 'r'
ORDER BY c.relname
"""
_TRANSACTIONS = """
SELECT 'process ' || pid || coalesce(' of ' || nullif(application_name, ''), '') || coalesce(', ' || state, ''),
    extract(epoch FROM clock_timestamp() - xact_start)::float
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
    AND backend_type = 'client backend'
UNION ALL
SELECT 'prepared transaction ' || gid, extract(epoch FROM clock_timestamp() - prepared)::float
FROM pg_prepared_xacts WHERE database = current_database()
ORDER BY 2 DESC LIMIT 100
"""
_PRIVILEGES = """
WITH schema AS (SELECT oid, nspname FROM pg_namespace WHERE nspname = %(schema)s)
SELECT 'USAGE ON SCHEMA ' || quote_ident(nspname) FROM schema WHERE NOT has_schema_privilege(oid, 'USAGE')
UNION ALL
SELECT privilege || ' ON ALL TABLES IN SCHEMA ' || quote_ident(nspname)
FROM schema, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
WHERE EXISTS (SELECT FROM pg_class AS c WHERE c.relnamespace = schema.oid AND c.relkind = 'r'
    AND NOT has_table_privilege(c.oid, privilege))
UNION ALL
SELECT 'USAGE ON ALL SEQUENCES IN SCHEMA ' || quote_ident(nspname)
FROM schema WHERE EXISTS (SELECT FROM pg_class AS c WHERE c.relnamespace = schema.oid
    AND CASE c.relkind WHEN 'S' THEN NOT has_sequence_privilege(c.oid, 'USAGE') ELSE false END)
UNION ALL
SELECT 'EXECUTE ON ALL FUNCTIONS IN SCHEMA ' || quote_ident(nspname)
FROM schema WHERE EXISTS (SELECT FROM pg_proc AS p WHERE p.pronamespace = schema.oid
    AND p.proname LIKE '%%\\_' || %(hash)s AND NOT has_function_privilege(p.oid, 'EXECUTE'))
"""


class TableVacuum(NamedTuple):
    """What autovacuum does with one table."""

    table: str
    rows: float  # -1 if the table was never vacuumed or analysed
    dead_rows: int
    enabled: bool
    server_enabled: bool
    starts_at: float  # dead rows


class OpenTransaction(NamedTuple):
    """A transaction of any session of the database."""

    owner: str
    seconds: float


async def examine(url: str) -> Sequence[Problem]:
    """Return what is wrong with the database of a store."""
    location = PostgresLocation.parse(url)
    with translate_errors(location.display_url, doing="examining"):
        async with await connect(location.dsn) as connection:
            tables = [TableVacuum(*row) for row in await _read(connection, _AUTOVACUUM, (location.schema,))]
            transactions = [OpenTransaction(*row) for row in await _read(connection, _TRANSACTIONS)]
            names = {"schema": location.schema, "hash": FUNCTIONS.hash}
            missing = [name for (name,) in await _read(connection, _PRIVILEGES, names)]
            (role,) = (await _read(connection, "SELECT quote_ident(current_user)"))[0]
    return [
        *check_autovacuum(tables, location.schema),
        *check_transactions(transactions),
        *check_privileges(missing, role),
    ]


async def _read(connection: AsyncConnection, query: str, values: Any = None) -> list[tuple[Any, ...]]:
    return await (await connection.execute(query.encode(), values)).fetchall()


def check_autovacuum(tables: Sequence[TableVacuum], schema: str) -> Iterator[Problem]:
    """Yield a problem if dead rows are not removed, or not soon enough."""
    if any(not table.server_enabled for table in tables):
        yield Problem(
            "autovacuum-off",
            "autovacuum is off for the whole server, so dead rows stay in the tables and claims get slower",
            "set autovacuum = on and track_counts = on in postgresql.conf, and reload the server",
        )
    elif off := [table.table for table in tables if not table.enabled]:
        yield Problem(
            "autovacuum-off",
            f"autovacuum is off for {_join(off)}, so dead rows stay there and claims get slower",
            f"run ALTER TABLE {schema}.{off[0]} RESET (autovacuum_enabled), likewise for others",
        )
    behind = [table for table in tables if table.dead_rows > max(MIN_DEAD_ROWS, BEHIND_FACTOR * table.starts_at)]
    if behind:
        worst = max(behind, key=lambda table: table.dead_rows)
        yield Problem(
            "autovacuum-behind",
            f"{worst.table} has {worst.dead_rows:,} dead rows, and autovacuum should have started at "
            f"{worst.starts_at:,.0f}",
            f"look for long transactions, and run VACUUM {schema}.{worst.table}; if it comes back, raise "
            "autovacuum_vacuum_cost_limit or autovacuum_max_workers",
        )


def check_transactions(transactions: Iterable[OpenTransaction]) -> Iterator[Problem]:
    """Yield a problem if a transaction is open for so long that dead rows pile up."""
    long = [one for one in transactions if one.seconds > LONG_SECONDS]
    if long:
        oldest = max(long, key=lambda one: one.seconds)
        yield Problem(
            "long-transaction",
            f"{len(long)} transaction{'s are' if len(long) > 1 else ' is'} open for more than {LONG_SECONDS:.0f} s. "
            f"The oldest is that of {oldest.owner}, for {oldest.seconds:,.0f} s. Dead rows stay until it ends",
            "end it, or set idle_in_transaction_session_timeout for the role that leaves transactions open",
        )


def check_privileges(missing: Sequence[str], role: str) -> Iterator[Problem]:
    """Yield a problem for privileges that a worker needs and this role does not have."""
    if missing:
        grants = "; ".join(f"GRANT {privilege} TO {role}" for privilege in missing)
        yield Problem(
            "privileges", f"the role {role} lacks {', '.join(missing)}", f"as the owner of the schema, run {grants}"
        )


def _join(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
    return ", ".join(names[:MAX_SHOWN]) + more
