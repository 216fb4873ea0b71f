"""swath: a durable work frontier.

async with swath.open("sqlite:///work.db") as frontier:
    await frontier.add(["a", "b", "c"])
    await frontier.run(handler, workers=100)
"""

from swath.claim import Claim
from swath.core import events
from swath.core.checkpoint import Checkpoint
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
from swath.core.item import Dead, Done, Item, Outcome, Release, Retry, Split
from swath.core.status import Explanation, Status
from swath.frontier import Frontier
from swath.opening import open
from swath.runner.run import Summary

__version__ = "0.1.0"

__all__ = [
    "Checkpoint",
    "Claim",
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
    "MissingExtra",
    "NotAFrontier",
    "Observer",
    "Outcome",
    "OutputConflict",
    "Release",
    "Retry",
    "SchemaError",
    "SchemaOutdated",
    "SchemaTooNew",
    "Split",
    "Status",
    "StoreFull",
    "StoreUnavailable",
    "Summary",
    "SwathError",
    "UsageError",
    "WrongTransaction",
    "events",
    "open",
]
