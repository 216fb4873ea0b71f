"""`swath claims`: list the claims that hold items."""

from collections.abc import AsyncIterator
from typing import Any

from swath import ClaimInfo, Frontier
from swath.cli.command import open_frontier, run_command
from swath.cli.formatting import format_duration, format_time
from swath.cli.options import JSONOption, ListLimitOption, StoreArgument, StoreOption
from swath.cli.terminal import print_json_lines, print_note, print_rows

LIMIT = 100
COLUMNS = ("claim", "items", "since", "lease left", "worker")


def claims(
    argument: StoreArgument = None,
    store: StoreOption = None,
    limit: ListLimitOption = LIMIT,
    json: JSONOption = False,
) -> None:
    """List the claims that hold items: who works on them, and how long their leases last.

    `swath items --state claimed` names the items with their claims. Without a terminal the output is tab-separated
    columns: claim, items, since, lease left, worker. With --json each claim is one line.

    Examples:
        swath claims crawl/
        swath claims --store postgresql://user@host/app --json
    """
    store = argument or store
    run_command(store, _list(store, limit, json))


async def _list(store: str | None, limit: int, json: bool) -> None:
    async with open_frontier(store) as frontier:
        found = _select(frontier, limit)
        if json:
            count = await print_json_lines(claim_to_json(claim) async for claim in found)
        else:
            count = await print_rows(COLUMNS, (claim_to_row(claim) async for claim in found), right=COLUMNS[:2])
    if count == 0:
        print_note("no claims: nothing is in flight")
    elif count == limit:
        print_note(f"the first {limit:,}; --limit 0 lists all", always=True)


async def _select(frontier: Frontier, limit: int) -> AsyncIterator[ClaimInfo]:
    count = 0
    async for claim in frontier.claims():
        yield claim
        count += 1
        if count == limit:
            return


def claim_to_json(claim: ClaimInfo) -> dict[str, Any]:
    return {
        "claim": claim.claim,
        "worker": claim.worker,
        "items": claim.items,
        "since": None if claim.since is None else claim.since.isoformat(),
        "expires": claim.expires_at.isoformat(),
        "lease_left": round(claim.lease_left, 3),
    }


def claim_to_row(claim: ClaimInfo) -> tuple[str, ...]:
    left = claim.lease_left
    lease = format_duration(left) if left >= 0 else f"expired {format_duration(-left)} ago"
    since = "" if claim.since is None else format_time(claim.since)
    return f"{claim.claim}", f"{claim.items:,}", since, lease, claim.worker
