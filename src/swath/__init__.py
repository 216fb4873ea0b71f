"""swath: a durable work frontier.

async with swath.open("sqlite:///work.db") as frontier:
    await frontier.add(["a", "b", "c"])
    await frontier.run(handler, workers=100)
"""

from swath.claim import Claim
from swath.core import events
from swath.core.check import CheckReport, Mismatch
from swath.core.checkpoint import Checkpoint
from swath.core.clock import Clock, ManualClock
from swath.core.errors import (
    InvalidItem,
    InvalidOutcome,
    InvalidSetting,
    InvalidStoreURL,
    LeaseLost,
    MissingExtra,
    NotAFrontier,
    OutputConflict,
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
from swath.core.item import DEFAULT_LANE, DEFAULT_PRIORITY, Dead, Done, Item, Outcome, Release, Retry, Split
from swath.core.redact import find_passwords, mask_password
from swath.core.status import Explanation, PartitionInfo, Status, StoreInfo
from swath.core.store import OutputMove, Store
from swath.frontier import Frontier
from swath.opening import StoreURL, describe, migrate, open
from swath.runner.output import Output
from swath.runner.run import Summary
from swath.runner.shutdown import Stop, stop_on_signals

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_LANE",
    "DEFAULT_PRIORITY",
    "CheckReport",
    "Checkpoint",
    "Claim",
    "Clock",
    "Dead",
    "Done",
    "Event",
    "Explanation",
    "Frontier",
    "InvalidItem",
    "InvalidOutcome",
    "InvalidSetting",
    "InvalidStoreURL",
    "Item",
    "LeaseLost",
    "ManualClock",
    "Mismatch",
    "MissingExtra",
    "NotAFrontier",
    "Observer",
    "Outcome",
    "Output",
    "OutputConflict",
    "OutputMove",
    "PartitionInfo",
    "Release",
    "Retry",
    "SchemaError",
    "SchemaOutdated",
    "SchemaTooNew",
    "Split",
    "Status",
    "Stop",
    "Store",
    "StoreFull",
    "StoreInfo",
    "StoreURL",
    "StoreUnavailable",
    "Summary",
    "SwathError",
    "UsageError",
    "WrongTransaction",
    "describe",
    "events",
    "find_passwords",
    "mask_password",
    "migrate",
    "open",
    "stop_on_signals",
]
