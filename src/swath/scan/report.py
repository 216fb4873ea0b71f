"""Proof: what a scan has looked at and found, true after any crash and over all machines."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import swath
from swath import Status
from swath.scan import workspace
from swath.scan.counts import Counts, counted, file_name, is_file
from swath.scan.open_findings import Ledger, examples, lines_of
from swath.scan.settings import ScanSettings

Examples = Mapping[str, list[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Proof:
    """Where a scan stands."""

    settings: ScanSettings
    counts: Counts
    outputs: int  # files of findings, of as many processes or machines
    began: str
    ended: str | None
    round: int
    status: Status
    examples: Examples
    length: int  # of the file of findings, committed

    @property
    def complete(self) -> bool:
        """Whether everything was looked at, as far as nothing was given up."""
        return self.ended is not None and not self.status.waiting

    @property
    def open(self) -> Counter[str]:
        return self.counts.open

    @property
    def clean(self) -> bool:
        """Whether everything was looked at and is as it should be."""
        return self.complete and not self.status.dead and not self.open

    def as_dict(self) -> dict[str, Any]:
        checkpoint = self.status.checkpoints[0]
        return {
            "source": self.settings.saved()["source"],
            "against": self.settings.saved()["against"],
            "complete": self.complete,
            "clean": self.clean,
            "began": self.began,
            "ended": self.ended,
            "recheck": self.round,
            "records": self.counts.records,
            "bytes": self.counts.bytes,
            "skipped": self.counts.skipped,
            "rechecked": self.counts.rechecked,
            "open": dict(self.open),
            "fixed": dict(self.counts.fixed),
            "closed": dict(self.counts.closed),
            "checkpoint": checkpoint.position,
            "end": checkpoint.end,
            "waiting": self.status.waiting,
            "dead": self.status.dead,
            "out": self.settings.out,
            "outputs": self.outputs,
        }


async def proof(settings: ScanSettings, *, with_examples: bool = False) -> Proof:
    """Where a scan stands, from what its store has committed. Examples are looked for in the file of findings."""
    async with swath.open(settings.store_url, create=False) as frontier:
        status = await frontier.status()
        committed = await frontier.outputs()
        facts = await frontier.facts([workspace.SCAN, workspace.ENDED, workspace.RECHECK])
    recheck = facts.get(workspace.RECHECK, {"round": 0, "ended": True})
    ended = facts.get(workspace.ENDED) if recheck["ended"] else None
    own = committed.get(file_name(workspace.output_name(settings)), 0)
    return Proof(
        settings,
        counted(committed),
        sum(is_file(name) for name in committed),
        facts[workspace.SCAN]["began"],
        recheck.get("at", ended) if ended else None,
        recheck["round"],
        status,
        await asyncio.to_thread(_examples, settings, own, recheck["round"]) if with_examples else {},
        own,
    )


def _examples(settings: ScanSettings, length: int, rounds: int) -> Examples:
    findings = lines_of(settings.lines, length)
    if not rounds:
        return examples(finding for finding in findings if finding["state"] == "open")
    ledger = Ledger(findings)
    try:
        return examples(ledger.findings())
    finally:
        ledger.close()
