"""swath: a durable work frontier.

async with swath.open("sqlite:///work.db") as frontier:
    await frontier.add(["a", "b", "c"])
    await frontier.run(handler, workers=100)
"""

from swath.backends.registry import Backend, Opening, StoreURL, delete, describe, examine, list_frontiers, migrate, open
from swath.claim import Claim
from swath.core import events
from swath.core.check import CheckReport, Mismatch
from swath.core.checkpoint import Checkpoint
from swath.core.clock import Clock, ManualClock, lease_clock
from swath.core.errors import (
    InvalidItem,
    InvalidOutcome,
    InvalidSetting,
    InvalidStoreURL,
    LeaseLost,
    MissingExtra,
    NotAFrontier,
    OutputConflict,
    OutputFull,
    SchemaError,
    SchemaOutdated,
    SchemaTooNew,
    StoreFull,
    StoreUnavailable,
    SwathError,
    UsageError,
    WrongTransaction,
)
from swath.core.events import Event, Observer
from swath.core.inspection import (
    AuditEntry,
    ClaimInfo,
    DeadItem,
    DoneItem,
    ItemPage,
    LaneInfo,
    LaneRanking,
    ListedItem,
    PendingItem,
)
from swath.core.item import (
    DEFAULT_LANE,
    DEFAULT_PRIORITY,
    UNCHANGED,
    Dead,
    Done,
    Item,
    Outcome,
    Release,
    Retry,
    Split,
    Unchanged,
)
from swath.core.key_check import KeyCheckReport
from swath.core.problem import Problem
from swath.core.redact import find_passwords, mask_password, redact
from swath.core.status import Explanation, PartitionInfo, Status, StoreInfo, StoreTime
from swath.core.store import EncodedItem, OutputMove, Settings, Store
from swath.core.validation import MAX_SECONDS, check_key, check_lane
from swath.frontier import Frontier, NewItem, NewItems
from swath.runner.execution import Handler, Transaction, get_fence, seconds_left
from swath.runner.handler_errors import HandlerError
from swath.runner.monitor import RunMonitor
from swath.runner.output import Output, Sink
from swath.runner.run import STOP_SECONDS, Summary, Until
from swath.runner.run_state import RunState
from swath.runner.shutdown import Stop, stop_on_signals
from swath.runner.store_retry import retry_while_unavailable

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_LANE",
    "DEFAULT_PRIORITY",
    "MAX_SECONDS",
    "STOP_SECONDS",
    "UNCHANGED",
    "AuditEntry",
    "Backend",
    "CheckReport",
    "Checkpoint",
    "Claim",
    "ClaimInfo",
    "Clock",
    "Dead",
    "DeadItem",
    "Done",
    "DoneItem",
    "EncodedItem",
    "Event",
    "Explanation",
    "Frontier",
    "Handler",
    "HandlerError",
    "InvalidItem",
    "InvalidOutcome",
    "InvalidSetting",
    "InvalidStoreURL",
    "Item",
    "ItemPage",
    "KeyCheckReport",
    "LaneInfo",
    "LaneRanking",
    "LeaseLost",
    "ListedItem",
    "ManualClock",
    "Mismatch",
    "MissingExtra",
    "NewItem",
    "NewItems",
    "NotAFrontier",
    "Observer",
    "Opening",
    "Outcome",
    "Output",
    "OutputConflict",
    "OutputFull",
    "OutputMove",
    "PartitionInfo",
    "PendingItem",
    "Problem",
    "Release",
    "Retry",
    "RunMonitor",
    "RunState",
    "SchemaError",
    "SchemaOutdated",
    "SchemaTooNew",
    "Settings",
    "Sink",
    "Split",
    "Status",
    "Stop",
    "Store",
    "StoreFull",
    "StoreInfo",
    "StoreTime",
    "StoreURL",
    "StoreUnavailable",
    "Summary",
    "SwathError",
    "Transaction",
    "Unchanged",
    "Until",
    "UsageError",
    "WrongTransaction",
    "check_key",
    "check_lane",
    "delete",
    "describe",
    "events",
    "examine",
    "find_passwords",
    "get_fence",
    "lease_clock",
    "list_frontiers",
    "mask_password",
    "migrate",
    "open",
    "redact",
    "retry_while_unavailable",
    "seconds_left",
    "stop_on_signals",
]
