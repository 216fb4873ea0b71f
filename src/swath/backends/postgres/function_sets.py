"""Install the stored functions of this version, record that they are in use, and remove unused sets.

Sets of several versions can be in a schema at the same time: their names differ (see `statements`). The table
`function_set` says when a process last used each of them. A process records the use when it opens the frontier and then
about every REFRESH_SECONDS. `migrate` removes a set that was not used for UNUSED_SECONDS. If a process slept longer,
its next call finds the functions missing and installs them again; no data depends on a set.
"""

import psycopg
from psycopg import errors as pg

from swath.backends.postgres.connections import AsyncConnection
from swath.backends.postgres.location import PostgresLocation
from swath.backends.postgres.statements import FUNCTIONS, FunctionSet
from swath.core.errors import SchemaOutdated

REFRESH_SECONDS = 3_600.0
UNUSED_SECONDS = 7 * 86_400.0

# EXECUTE on a new function goes to the roles that have it on the function of the same name in the previous set. A
# function that the previous set does not have gets the grants of `claim`.
_GRANTS = """
WITH previous AS (
    SELECT hash FROM {schema}.function_set WHERE hash <> %(hash)s ORDER BY installed_at DESC, hash LIMIT 1
), old AS (
    SELECT left(p.proname, -length(s.hash) - 1) AS name, coalesce(p.proacl, acldefault('f', p.proowner)) AS acl
    FROM previous AS s
    JOIN pg_proc AS p ON p.pronamespace = {schema_literal}::regnamespace AND p.proname LIKE '%%\\_' || s.hash
), new AS (
    SELECT left(p.proname, -length(%(hash)s) - 1) AS name, p.oid::regprocedure AS function
    FROM pg_proc AS p WHERE p.pronamespace = {schema_literal}::regnamespace AND p.proname LIKE '%%\\_' || %(hash)s
)
SELECT n.function::text, a.grantee, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END, a.is_grantable
FROM new AS n
CROSS JOIN LATERAL (
    SELECT o.acl FROM old AS o WHERE o.name IN (n.name, 'claim') ORDER BY o.name = n.name DESC LIMIT 1
) AS o
CROSS JOIN LATERAL aclexplode(o.acl) AS a
LEFT JOIN pg_roles AS r ON r.oid = a.grantee
WHERE a.privilege_type = 'EXECUTE'
"""


async def lock_schema(connection: AsyncConnection, location: PostgresLocation) -> None:
    """Acquire the lock under which a frontier in this schema is created or migrated."""
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"swath {location.schema}",))


async def ensure_installed(
    connection: AsyncConnection, location: PostgresLocation, functions: FunctionSet = FUNCTIONS
) -> None:
    """Install the set if it is missing and the role may create functions; record that it is in use."""
    cursor = await connection.execute(
        location.fill("SELECT used_at < now() - make_interval(secs => %s) FROM {schema}.function_set WHERE hash = %s"),
        (REFRESH_SECONDS / 2, functions.hash),
    )
    row = await cursor.fetchone()
    if row is not None and not row[0]:
        return
    try:
        if row is None or not await _record_use(connection, location, functions):
            async with connection.transaction():
                await install(connection, location, functions)
    except (pg.InsufficientPrivilege, pg.ReadOnlySqlTransaction) as error:
        if row is not None:
            return  # a role that may only read cannot record the use
        raise SchemaOutdated(
            f"{location.display_url} lacks the stored functions of this swath (set {functions.hash}), and this role "
            f"may not create them ({error.diag.message_primary}). "
            f"Run `swath db migrate --store '{location.display_url}'` with a role that may"
        ) from error


async def _record_use(connection: AsyncConnection, location: PostgresLocation, functions: FunctionSet) -> bool:
    """Record that the set is in use. Return False if it does not exist (a concurrent migration may have removed it)."""
    cursor = await connection.execute(
        location.fill("UPDATE {schema}.function_set SET used_at = now() WHERE hash = %s"), (functions.hash,)
    )
    return cursor.rowcount > 0


async def install(connection: AsyncConnection, location: PostgresLocation, functions: FunctionSet = FUNCTIONS) -> bool:
    """Create the functions of a set and copy the grants of the previous one; return False if the set is installed.

    Call it in a transaction. If another transaction installs the same set, the INSERT waits for it to end.
    """
    cursor = await connection.execute(
        location.fill("INSERT INTO {schema}.function_set (hash) VALUES (%s) ON CONFLICT DO NOTHING"), (functions.hash,)
    )
    if not cursor.rowcount:
        return False
    for statement in functions.statements.values():
        await connection.execute(location.fill(statement, fence_sequence=location.fill("{schema}.fence")))
    await _copy_grants(connection, location, functions)
    return True


async def _copy_grants(connection: AsyncConnection, location: PostgresLocation, functions: FunctionSet) -> None:
    rows = await (await connection.execute(location.fill(_GRANTS), {"hash": functions.hash})).fetchall()
    for function in {row[0] for row in rows}:
        await connection.execute(f"REVOKE ALL ON FUNCTION {function} FROM PUBLIC".encode())
    for function, _, grantee, is_grantable in rows:
        option = " WITH GRANT OPTION" if is_grantable and grantee != "PUBLIC" else ""
        await connection.execute(f"GRANT EXECUTE ON FUNCTION {function} TO {grantee}{option}".encode())


async def remove_unused(
    connection: AsyncConnection, location: PostgresLocation, functions: FunctionSet = FUNCTIONS
) -> list[str]:
    """Drop other sets that no process has used for UNUSED_SECONDS; return their hashes.

    Keep a set if this role may not drop its functions.
    """
    cursor = await connection.execute(
        location.fill(
            "SELECT hash FROM {schema}.function_set "
            "WHERE hash <> %s AND used_at < now() - make_interval(secs => %s) ORDER BY installed_at FOR UPDATE"
        ),
        (functions.hash, UNUSED_SECONDS),
    )
    removed = []
    for (unused,) in await cursor.fetchall():
        try:
            async with connection.transaction():  # a savepoint
                await drop_functions(connection, location, unused)
                await connection.execute(location.fill("DELETE FROM {schema}.function_set WHERE hash = %s"), (unused,))
        except psycopg.errors.InsufficientPrivilege:
            continue
        removed.append(unused)
    return removed


async def drop_functions(connection: AsyncConnection, location: PostgresLocation, unused: str) -> None:
    """Drop the functions of a set."""
    cursor = await connection.execute(
        "SELECT oid::regprocedure::text FROM pg_proc "
        "WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s) AND proname LIKE %s",
        (location.schema, f"%\\_{unused}"),
    )
    for (function,) in await cursor.fetchall():
        await connection.execute(f"DROP FUNCTION {function}".encode())
