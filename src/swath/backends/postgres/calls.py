"""Call stored functions and run queries: one statement, one transaction each.

Replies are read by position. So before the first call of a function on a connection, the names of its columns are
compared with the expected ones. They can differ only if the function was replaced, because its name contains a hash.
"""

from collections.abc import Sequence
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import errors as pg

from swath.backends.postgres.connections import AsyncConnection, Connections
from swath.backends.postgres.errors import can_repeat, translate_error
from swath.backends.postgres.function_sets import REFRESH_SECONDS, ensure_installed
from swath.backends.postgres.location import PostgresLocation
from swath.backends.postgres.replies import COLUMNS
from swath.backends.postgres.statements import FUNCTIONS, QUERIES
from swath.core.errors import SchemaError, StoreFull, StoreUnavailable

# As the stored functions have it, for a transaction that reads.
BY_INDEX = "; ".join(
    f"SET LOCAL enable_{plan} TO off" for plan in ("seqscan", "bitmapscan", "hashjoin", "mergejoin", "sort")
)
RECHECKED = ("find_claim", "claimed_items")  # they look up a claim that may have taken effect


class Calls:
    """Sends the statements of one store over its connections."""

    def __init__(self, location: PostgresLocation, connections: Connections) -> None:
        self._location = location
        self._connections = connections
        self._statements: dict[str, str] = {}  # by function
        self._queries: dict[str, str] = {}
        self._checked: WeakKeyDictionary[AsyncConnection, set[str]] = WeakKeyDictionary()
        self._refresh_at = monotonic() + REFRESH_SECONDS

    async def call(self, function: str, *arguments: Any, doing: str, repeat: bool = True) -> tuple[Any, ...]:
        """Call a stored function and return its reply. With `repeat`, send it again if the connection breaks."""
        statement = self.build_statement(function, len(arguments))
        (row,) = await self._run(
            statement,
            arguments,
            function=function,
            doing=doing,
            repeat=repeat and function != "claim",
            unsure=function in RECHECKED,
        )
        return tuple(row)

    async def query(self, name: str, parameters: dict[str, Any] | None = None, *, by_index: bool = False) -> list[Any]:
        """Run a query of `queries.sql` and return its rows.

        With `by_index`, PostgreSQL reads tables in the order of an index, whatever its statistics say.
        """
        if name not in self._queries:
            self._queries[name] = self._location.fill(QUERIES[name])
        return await self._run(
            self._queries[name], parameters, function=None, doing="reading", repeat=True, by_index=by_index
        )

    def build_statement(self, function: str, arguments: int) -> str:
        """Return the statement that calls a function. A reply of one value is a column named `reply`."""
        if function not in self._statements:
            call = f"SELECT * FROM {{schema}}.{function}_{{set}}({', '.join(['%s'] * arguments)}) AS reply"
            self._statements[function] = self._location.fill(FUNCTIONS.fill(call))
        return self._statements[function]

    def check_columns(self, function: str, description: Sequence[psycopg.Column] | None) -> None:
        """Raise SchemaError if a reply does not have the columns that this version reads."""
        found = tuple(column.name for column in description or ())
        if found != COLUMNS[function]:
            raise SchemaError(
                f"{self._location.display_url}: the stored function {function}_{FUNCTIONS.hash} returns the columns "
                f"{', '.join(found)} instead of {', '.join(COLUMNS[function])}; nothing was changed. "
                "The function was replaced: drop the functions of this set and its row in the table function_set, then "
                "open the frontier again"
            )

    async def _run(
        self,
        statement: str,
        parameters: Any,
        *,
        function: str | None,
        doing: str,
        repeat: bool,
        unsure: bool = False,
        by_index: bool = False,
    ) -> list[Any]:
        """Send a statement, and once more if the connection broke or PostgreSQL resolved a deadlock against it.

        Repeating is safe: the functions recognise what was applied by its number or hash. The connection may have
        broken while it was idle. If `unsure`, an earlier statement may have taken effect even if the disk is full now,
        so StoreUnavailable is raised instead of StoreFull.
        """
        reinstalled = False
        while True:
            try:
                async with self._connections.lend() as connection:
                    await self._prepare(connection, function, reinstalled)
                    if not by_index:
                        return await (await connection.execute(statement, parameters, binary=True)).fetchall()
                    async with connection.transaction():
                        await connection.execute(BY_INDEX)
                        return await (await connection.execute(statement, parameters, binary=True)).fetchall()
            except pg.UndefinedFunction as error:
                if reinstalled:
                    raise translate_error(error, self._location.display_url, doing=doing) from error
                reinstalled = True  # a migration removed the set while this process slept
            except psycopg.Error as error:
                failure = translate_error(error, self._location.display_url, doing=doing)
                if unsure and isinstance(failure, StoreFull):
                    message = error.diag.message_primary
                    failure = StoreUnavailable(f"{self._location.display_url} has no room left ({message}). Try again")
                if not repeat or not isinstance(failure, StoreUnavailable) or not can_repeat(error):
                    raise failure from error
                repeat, unsure = False, True

    async def _prepare(self, connection: AsyncConnection, function: str | None, reinstall: bool) -> None:
        """Record the use of the functions about once an hour, and check a function's columns on a new connection."""
        if reinstall or monotonic() >= self._refresh_at:
            self._refresh_at = monotonic() + REFRESH_SECONDS
            await ensure_installed(connection, self._location)
        if function is None:
            return
        checked = self._checked.get(connection)
        if checked is None:
            checked = self._checked[connection] = set()
        if function not in checked:
            # LIMIT 0 describes the reply without calling the function.
            statement = self._statements[function]
            cursor = await connection.execute(f"{statement} LIMIT 0".encode(), (None,) * statement.count("%s"))
            self.check_columns(function, cursor.description)
            checked.add(function)
