"""The suite of all stores through a pool that changes the connection with every transaction."""

import secrets
from collections.abc import Callable

import pytest

from swath.backends.postgres import PostgresStore
from swath.backends.postgres.location import PostgresLocation
from swath.conformance import DurableStoreConformance, StoreConformance
from swath.core.clock import Clock
from swath.core.store import Settings, Store
from tests.conftest import GIVEN_DSN, Server
from tests.postgres.lending import Pooler
from tests.postgres_server import installations

SIZE = 2


@pytest.fixture(scope="module")
def server(postgres_of: Callable[[int | None], Server]) -> Server:
    """The oldest version there is: tests/conformance has the newest, without a pool."""
    return postgres_of(min(installations()) if GIVEN_DSN is None else None)


class TestThroughPooler(StoreConformance, DurableStoreConformance):
    database: str

    @pytest.fixture(autouse=True)
    def take(self, database: str) -> None:
        self.database = database

    async def make_store(self, settings: Settings, clock: Clock) -> Store:
        return await self._open(f"{self.database}&schema=s{secrets.token_hex(6)}", settings, clock)

    async def open_again(self, store: Store, clock: Clock) -> Store:
        assert isinstance(store, PostgresStore)
        return await self._open(f"{self.database}&schema={store.location.schema}", None, clock)

    async def _open(self, url: str, settings: Settings | None, clock: Clock) -> Store:
        pooler = await Pooler.of(PostgresLocation.parse(url).dsn, size=SIZE)
        return await PostgresStore.open(
            url, settings=settings, create=settings is not None, clock=clock, connections=pooler
        )
