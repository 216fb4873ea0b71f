"""Comparisons of two tables through the source of a scan, without a frontier."""

from collections.abc import Sequence
from typing import NamedTuple

from swath.scan.finding import Finding
from swath.scan.sources.source import ReadCounts, SourceFinding
from swath.scan.sources.table_comparison import TableComparison

WHOLE = {"after": None, "upto": None}  # the slice that is the whole table


class Compared(NamedTuple):
    records: int
    findings: dict[str, Finding]  # by key

    @property
    def columns(self) -> dict[str, set[str]]:
        """The columns that differ, by key."""
        return {key: set(finding.data["columns"]) for key, finding in self.findings.items()}


def compare_tables(here: str, there: str, *, loose: Sequence[str] = ()) -> Compared:
    source = TableComparison(here, there, key=None, columns=(), loose=loose)
    try:
        source.snapshot()
        steps = list(source.read(WHOLE))
    finally:
        source.close()
    findings = {step.key: step.finding for step in steps if isinstance(step, SourceFinding)}
    return Compared(sum(step.records for step in steps if isinstance(step, ReadCounts)), findings)
