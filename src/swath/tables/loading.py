"""Values of PostgreSQL that Python has no value for, such as the timestamp `infinity`: they are texts then, so that one
of them does not make a whole slice unreadable."""

from typing import Any

import psycopg
from psycopg.abc import AdaptContext, Buffer, Loader
from psycopg.pq import Format

FORGIVEN = ("date", "timestamp", "timestamptz", "time", "timetz", "interval", "json", "jsonb")


def forgive(connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any]) -> None:
    """Have a connection read what it cannot make a value of as text."""
    for name in FORGIVEN:
        oid = connection.adapters.types[name].oid
        if (strict := connection.adapters.get_loader(oid, Format.TEXT)) is not None:
            connection.adapters.register_loader(oid, _forgiving(strict))


def _forgiving(strict: type[Loader]) -> type[Loader]:
    class Forgiving:
        format = Format.TEXT

        def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
            self._strict = strict(oid, context)

        def load(self, data: Buffer) -> Any:
            try:
                return self._strict.load(data)
            except (psycopg.DataError, ValueError, OverflowError, RecursionError):
                return bytes(data).decode()

    return Forgiving
