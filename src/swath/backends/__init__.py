"""Stores: memory, SQLite and PostgreSQL, and what a package needs to add another one.

The modules here import `swath.core`; only `registry` imports Frontier. The names below are public, for authors of
backends: the Store protocol and the records that its methods take and return.
"""

from swath.backends.memory import MemoryStore
from swath.core.lane import LaneLimits, Pacing
from swath.core.store import (
    AuditChange,
    AuditRow,
    ClaimRef,
    ClaimReply,
    ClaimRequest,
    ClaimRow,
    ClockReading,
    Cursor,
    EncodedItem,
    Fact,
    Found,
    ItemRow,
    KnownPlace,
    LaneChange,
    LaneRow,
    Move,
    MoveKind,
    OutputMove,
    PartitionStatus,
    RowPage,
    Settings,
    Settlement,
    SettleReply,
    Signal,
    Store,
    StoreStatus,
)

__all__ = [
    "AuditChange",
    "AuditRow",
    "ClaimRef",
    "ClaimReply",
    "ClaimRequest",
    "ClaimRow",
    "ClockReading",
    "Cursor",
    "EncodedItem",
    "Fact",
    "Found",
    "ItemRow",
    "KnownPlace",
    "LaneChange",
    "LaneLimits",
    "LaneRow",
    "MemoryStore",
    "Move",
    "MoveKind",
    "OutputMove",
    "Pacing",
    "PartitionStatus",
    "RowPage",
    "Settings",
    "SettleReply",
    "Settlement",
    "Signal",
    "Store",
    "StoreStatus",
]
