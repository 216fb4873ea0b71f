"""The Store test suite, for authors of backends: a store that passes it keeps the promises of `swath.core.store`.

It needs pytest and pytest-asyncio. In a test module of yours:

    class TestMyStore(StoreConformance):
        async def make_store(self, settings, clock):
            return await MyStore.open(..., settings=settings, clock=clock)

    class TestMyStoreEndures(DurableStoreConformance):
        ...                              # implement make_store, and open_again, which returns a second handle

A test's name begins with the Store method that it tests.
"""

import pytest

_MODULES = (
    "adds",
    "checkpoints",
    "claims",
    "clocks",
    "counters",
    "delays",
    "discovered_items",
    "drops",
    "durability",
    "facts",
    "leases",
    "pacing",
    "reads",
    "repairs",
    "settlements",
    "splits",
    "transactions",
    "trial",
)
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES))

from swath.conformance.durability import DurableStoreConformance  # noqa: E402  (after the line above)
from swath.conformance.suite import StoreConformance  # noqa: E402
from swath.conformance.transactions import TransactionConformance  # noqa: E402

__all__ = ["DurableStoreConformance", "StoreConformance", "TransactionConformance"]
