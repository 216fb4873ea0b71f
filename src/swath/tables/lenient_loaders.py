"""psycopg loaders that return text for values that Python cannot represent, such as the timestamp `infinity`.

Without them, a single such value makes a whole slice unreadable.
"""

from typing import Any

import psycopg
from psycopg.abc import AdaptContext, Buffer, Loader
from psycopg.pq import Format

LENIENT_TYPES = ("date", "timestamp", "timestamptz", "time", "timetz", "interval", "json", "jsonb")


def register_lenient_loaders(connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any]) -> None:
    """Make a connection return text for values that psycopg's own loader rejects."""
    for name in LENIENT_TYPES:
        oid = connection.adapters.types[name].oid
        if (strict := connection.adapters.get_loader(oid, Format.TEXT)) is not None:
            connection.adapters.register_loader(oid, _make_lenient(strict))


def _make_lenient(strict: type[Loader]) -> type[Loader]:
    class LenientLoader:
        format = Format.TEXT

        def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
            self._strict = strict(oid, context)

        def load(self, data: Buffer) -> Any:
            try:
                return self._strict.load(data)
            except (psycopg.DataError, ValueError, OverflowError, RecursionError):
                return bytes(data).decode()

    return LenientLoader
