"""Every store under the suite that is shipped for all."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest

from swath.conformance import DurableStoreConformance, StoreConformance, TransactionConformance
from swath.core.clock import Clock
from swath.core.store import Settings, Store
from tests.conformance.backends import BESIDE, DURABLE, Backend


class MadeByBackend:
    backend: Backend

    @pytest.fixture(autouse=True)
    def take(self, backend: Backend) -> None:
        self.backend = backend

    async def make_store(self, settings: Settings, clock: Clock) -> Store:
        return await self.backend.make(settings, clock)

    async def open_again(self, store: Store, clock: Clock) -> Store:
        return await self.backend.open_again(store, clock)


class TestStore(MadeByBackend, StoreConformance):
    """Memory, SQLite in two ways, and PostgreSQL."""


@pytest.mark.parametrize("backend", [*DURABLE, BESIDE], indirect=True)
class TestTransactions(MadeByBackend, TransactionConformance):
    """SQLite in two ways, and PostgreSQL."""

    async def execute(self, connection: Any, statement: str) -> Sequence[Any]:
        if isinstance(connection, sqlite3.Connection):
            return connection.execute(statement).fetchall()
        cursor = await connection.execute(statement)
        return list(await cursor.fetchall()) if cursor.description else []


@pytest.mark.parametrize("backend", DURABLE, indirect=True)
class TestDurableStore(MadeByBackend, DurableStoreConformance):
    """SQLite and PostgreSQL."""
