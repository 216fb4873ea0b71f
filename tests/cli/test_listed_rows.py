"""What `swath items`, `claims` and `audit` show of one entry, as a row and as JSON."""

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest

from swath import AuditEntry, ClaimInfo, DeadItem, DoneItem, ListedItem, PendingItem
from swath.cli.audit import entry_to_json, entry_to_row
from swath.cli.claims import claim_to_json, claim_to_row
from swath.cli.formatting import format_time
from swath.cli.items import COLUMNS, item_to_json, item_to_row
from swath.core.inspection import build_claim_info, build_pending_item
from swath.core.store import ClaimRow, ItemRow

AT = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
TIME = format_time(AT)
BASE: dict[str, Any] = {
    "key": "k", "lane": "l", "priority": 4, "payload": {"a": 1}, "partition": 2, "position": 9,
}  # fmt: skip
READY = PendingItem("k", "l", 4, {"a": 1}, 3, "ready", 2, 9)
DELAYED = dataclasses.replace(READY, state="delayed", due_at=AT, reason="why", error="trace")
CLAIMED = dataclasses.replace(READY, state="claimed", claim=12)
FAILED: dict[str, Any] = {"attempts": 3, "reason": None, "error": None}


@pytest.mark.parametrize(
    ("item", "row", "data"),
    [
        (READY, ("k", "l", "4", "3"), FAILED),
        (CLAIMED, ("k", "l", "3", "12"), {**FAILED, "claim": 12}),
        (
            DELAYED,
            ("k", "l", "3", TIME, "why"),
            {"attempts": 3, "reason": "why", "error": "trace", "due": AT.isoformat(), "revisit": False},
        ),
        (
            dataclasses.replace(DELAYED, revisit=True),
            ("k", "l", "3", TIME, "done, to be visited again"),
            {"attempts": 3, "reason": "why", "error": "trace", "due": AT.isoformat(), "revisit": True},
        ),
        (
            DoneItem("k", "l", 4, {"a": 1}, [1, "ü"], AT, 2, 9),
            ("k", "l", TIME, '[1, "ü"]'),
            {"since": AT.isoformat(), "result": [1, "ü"]},
        ),
        (
            DeadItem("k", "l", 4, {"a": 1}, 3, "why", "trace", AT, 2, 9),
            ("k", "l", "3", TIME, "why"),
            {"attempts": 3, "since": AT.isoformat(), "reason": "why", "error": "trace"},
        ),
    ],
)
def test_items(item: ListedItem, row: tuple[str, ...], data: dict[str, Any]) -> None:
    assert item_to_row(item) == row
    assert len(row) == len(COLUMNS[item.state])
    assert item_to_json(item) == {**BASE, "state": item.state, **data}


def test_a_delayed_item_that_did_not_fail() -> None:
    assert item_to_row(dataclasses.replace(DELAYED, reason=None))[-1] == ""


def test_the_last_failure_of_a_waiting_item() -> None:
    row = ItemRow(2, 9, "delayed", "l", 4, "k", '{"a": 1}', 3, due_at=1_000_000, reason="why", error="trace")
    due = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert build_pending_item(row) == dataclasses.replace(DELAYED, due_at=due)


CLAIM = ClaimInfo(7, "worker", AT, AT, 90.0006, 1_200)


@pytest.mark.parametrize(
    ("left", "text"),
    [(90.0, "90 s"), (0.0, "0 s"), (-90.0, "expired 90 s ago"), (-7_200.0, "expired 2 h ago")],
)
def test_claims_as_rows(left: float, text: str) -> None:
    claim = dataclasses.replace(CLAIM, lease_left=left)
    assert claim_to_row(claim) == ("7", "1,200", TIME, text, "worker")
    assert claim_to_row(dataclasses.replace(claim, since=None))[2] == ""


def test_claims_as_json() -> None:
    data = {
        "claim": 7, "worker": "worker", "items": 1_200, "since": AT.isoformat(), "expires": AT.isoformat(),
        "lease_left": 90.001,
    }  # fmt: skip
    assert claim_to_json(CLAIM) == data
    assert claim_to_json(dataclasses.replace(CLAIM, since=None))["since"] is None


def test_the_lease_of_a_claim() -> None:
    row = ClaimRow(7, "worker", claimed_at=1_000_000, expires_at=4_500_000, items=3)
    found = build_claim_info(row, now=2_000_000)
    assert (found.lease_left, found.items, found.claim) == (2.5, 3, 7)
    assert found.since == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    late = build_claim_info(row._replace(claimed_at=0), now=5_000_000)
    assert (late.since, late.lease_left) == (None, -0.5)


def test_changes() -> None:
    entry = AuditEntry(AT, "ann@host", "drop", "l", 1_200, {"reason": "why", "limit": 5, "all": True})
    assert entry_to_row(entry) == (TIME, "ann@host", "drop", "l", "1,200", "reason why, limit 5, all true")
    assert entry_to_json(entry) == {
        "time": AT.isoformat(), "who": "ann@host", "change": "drop", "lane": "l", "items": 1_200,
        "details": {"reason": "why", "limit": 5, "all": True},
    }  # fmt: skip
    plain = AuditEntry(AT, "ann@host", "pause", None, None, {})
    assert entry_to_row(plain) == (TIME, "ann@host", "pause", "", "", "")
