"""The tests that every store must pass, including stores in memory."""

from swath.conformance.adding import Adding
from swath.conformance.checkpoints import Checkpoints
from swath.conformance.claiming import Claiming
from swath.conformance.clocks import Clocks
from swath.conformance.counters import Counters
from swath.conformance.delaying import Delaying
from swath.conformance.discovering import Discovering
from swath.conformance.learning import Learning
from swath.conformance.leases import Leases
from swath.conformance.looking import Looking
from swath.conformance.pacing import Pacing
from swath.conformance.settling import Settling
from swath.conformance.splitting import Splitting


class StoreConformance(
    Adding,
    Claiming,
    Pacing,
    Leases,
    Settling,
    Counters,
    Discovering,
    Delaying,
    Splitting,
    Checkpoints,
    Looking,
    Learning,
    Clocks,
):
    """Subclass it, implement `make_store`, and let pytest collect the subclass."""
