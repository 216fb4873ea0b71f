"""Stores: memory, SQLite and PostgreSQL, and what a package needs to add another one.

The modules here import `swath.core`; only `registry` imports Frontier. This page of names is public, for authors of
backends: the Store protocol, the records that cross it, and the rules of pacing as pure functions.
"""

from swath.backends.memory import MemoryStore
from swath.core.lane import LaneLimits, Pacing
from swath.core.store import (
    ClaimRef,
    ClaimReply,
    ClaimRequest,
    DeadRow,
    EncodedItem,
    Fact,
    Found,
    LaneChange,
    LaneRow,
    Move,
    MoveKind,
    OutputMove,
    PartitionStatus,
    PendingRow,
    Settings,
    Settlement,
    SettleReply,
    Signal,
    Store,
    StoreStatus,
)

__all__ = [
    "ClaimRef",
    "ClaimReply",
    "ClaimRequest",
    "DeadRow",
    "EncodedItem",
    "Fact",
    "Found",
    "LaneChange",
    "LaneLimits",
    "LaneRow",
    "MemoryStore",
    "Move",
    "MoveKind",
    "OutputMove",
    "Pacing",
    "PartitionStatus",
    "PendingRow",
    "Settings",
    "SettleReply",
    "Settlement",
    "Signal",
    "Store",
    "StoreStatus",
]
