"""ScanReport: what a scan has read and found, exact after any crash and over all machines."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import swath
from swath import Status
from swath.scan import workspace
from swath.scan.counts import Counts, sum_counters
from swath.scan.open_findings import OpenFindings, pick_examples, read_findings
from swath.scan.progress import ENDED, RECHECK, SCAN
from swath.scan.settings import ScanSettings

Examples = Mapping[str, list[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class ScanReport:
    """The state of a scan, as committed in its store."""

    settings: ScanSettings
    counts: Counts
    outputs: int  # files of findings, one per process or machine
    began: str
    ended: str | None
    round: int
    status: Status
    examples: Examples
    length: int  # of this process's file of findings, committed

    @property
    def complete(self) -> bool:
        """Whether everything was scanned, except for dead items."""
        return self.ended is not None and not self.status.waiting

    @property
    def open(self) -> Counter[str]:
        return self.counts.open

    @property
    def clean(self) -> bool:
        """Whether everything was scanned and no finding is open."""
        return self.complete and not self.status.dead and not self.open

    def as_dict(self) -> dict[str, Any]:
        checkpoint = self.status.checkpoints[0]
        return {
            "source": self.settings.get_identity()["source"],
            "against": self.settings.get_identity()["against"],
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


async def read_report(settings: ScanSettings, *, with_examples: bool = False) -> ScanReport:
    """Read the report from the store, and the examples from this process's file of findings."""
    async with swath.open(settings.store_url, create=False) as frontier:
        status = await frontier.status()
        counters = await frontier.counters()
        lengths = await frontier.outputs()
        facts = await frontier.facts([SCAN, ENDED, RECHECK])
    recheck = facts.get(RECHECK, {"round": 0, "ended": True})
    ended = facts.get(ENDED) if recheck["ended"] else None
    length = lengths.get(workspace.get_output_name(settings), 0)
    return ScanReport(
        settings,
        sum_counters(counters),
        len(lengths),
        facts[SCAN]["began"],
        recheck.get("at", ended) if ended else None,
        recheck["round"],
        status,
        await asyncio.to_thread(_find_examples, settings, length, recheck["round"]) if with_examples else {},
        length,
    )


def _find_examples(settings: ScanSettings, length: int, rounds: int) -> Examples:
    findings = read_findings(settings.findings_path, length)
    if not rounds:
        return pick_examples(finding for finding in findings if finding["state"] == "open")
    open_findings = OpenFindings(findings)
    try:
        return pick_examples(open_findings.list_findings())
    finally:
        open_findings.close()
