"""Every store under the suite that is shipped for all."""

import inspect
from collections.abc import Sequence
from typing import Any

import pytest

from swath.conformance import DurableStoreConformance, StoreConformance
from swath.conformance.counters import Counters
from swath.conformance.transactions import Transactions
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


@pytest.mark.parametrize("backend", ["memory", "sqlite", BESIDE], indirect=True)
class TestCounters(MadeByBackend, Counters):
    """Part of StoreConformance once PostgreSQL has counters."""


@pytest.mark.parametrize("backend", ["sqlite", BESIDE], indirect=True)
class TestTransactions(MadeByBackend, Transactions):
    """SQLite; PostgreSQL once it has `transaction()`."""

    async def execute(self, connection: Any, statement: str) -> Sequence[Any]:
        rows = connection.execute(statement)
        return list((await rows if inspect.isawaitable(rows) else rows).fetchall())


@pytest.mark.parametrize("backend", DURABLE, indirect=True)
class TestDurableStore(MadeByBackend, DurableStoreConformance):
    """SQLite and PostgreSQL."""
