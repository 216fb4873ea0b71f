"""The tests that every store must pass, including stores in memory."""

from swath.conformance.adds import Adds
from swath.conformance.checkpoints import Checkpoints
from swath.conformance.claims import Claims
from swath.conformance.clocks import Clocks
from swath.conformance.counters import Counters
from swath.conformance.delays import Delays
from swath.conformance.discovered_items import DiscoveredItems
from swath.conformance.drops import Drops
from swath.conformance.facts import Facts
from swath.conformance.history import History
from swath.conformance.leases import Leases
from swath.conformance.listings import Listings
from swath.conformance.pacing import Pacing
from swath.conformance.reads import Reads
from swath.conformance.repairs import Repairs
from swath.conformance.settlements import Settlements
from swath.conformance.splits import Splits


class StoreConformance(
    Adds,
    Claims,
    Pacing,
    Leases,
    Settlements,
    Counters,
    DiscoveredItems,
    Delays,
    Drops,
    Repairs,
    Splits,
    Checkpoints,
    Reads,
    Listings,
    History,
    Facts,
    Clocks,
):
    """Subclass it, implement `make_store`, and let pytest collect the subclass."""
