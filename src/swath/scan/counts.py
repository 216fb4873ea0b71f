"""Counts of a scan, kept as counters of the frontier.

A counter commits with the settlement of an item, so the counts are exact after any crash and over all machines. The
counters by code also have the mark of the output that holds the findings: a recheck covers the findings of one output
and closes them under the names they were opened with.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_CODES = 200  # counters per output and kind; findings with further codes are counted together
OTHERS = "(others)"
READ = ("records", "bytes", "skipped", "compressed", "listed", "folders_found", "folders_listed")
TOTALS = (*READ, "rechecked")
BY_CODE = ("opened", "closed", "fixed")
_PREFIX = "scan."


@dataclass(slots=True)
class Counts:
    """How much was read, and the number of findings by code."""

    records: int = 0
    bytes: int = 0
    skipped: int = 0
    compressed: int = 0  # bytes of a compressed file
    listed: int = 0  # entries of directories, except directories
    folders_found: int = 0  # below the first
    folders_listed: int = 0
    rechecked: int = 0
    opened: Counter[str] = field(default_factory=Counter)
    closed: Counter[str] = field(default_factory=Counter)  # of those opened: fixed or resolved later
    fixed: Counter[str] = field(default_factory=Counter)

    @property
    def open(self) -> Counter[str]:
        """The open findings, by code."""
        left = self.opened.copy()
        left.subtract(self.closed)
        return +left

    def add_record(self, states: Counter[tuple[str, str]], before: Mapping[str, int]) -> None:
        """Count the findings of one record: their number by (state, code), and by code what was open before."""
        for code in {code for _, code in states} | before.keys():
            change = states["open", code] - before.get(code, 0)
            if change > 0:
                self.opened[code] += change
            elif change < 0:
                self.closed[code] -= change
            if states["fixed", code]:
                self.fixed[code] += states["fixed", code]


class CounterNames:
    """Chooses the names of counters for one output, and bounds how many there are (INV-9)."""

    def __init__(self, mark: str, counters: Mapping[str, int]) -> None:
        self._mark = mark
        self._codes: dict[str, set[str]] = {kind: set() for kind in BY_CODE}
        for name in counters:
            kind, _, rest = name.removeprefix(_PREFIX).partition(".")
            owner, _, code = rest.partition(".")
            if kind in self._codes and owner == mark:
                self._codes[kind].add(code)

    def to_counters(self, counts: Counts) -> dict[str, int]:
        """Return the counts of an item as counters to settle with."""
        counters = {f"{_PREFIX}{name}": number for name in TOTALS if (number := getattr(counts, name))}
        for kind in BY_CODE:
            for code, number in getattr(counts, kind).items():
                name = f"{_PREFIX}{kind}.{self._mark}.{self._choose_code(kind, code)}"
                counters[name] = counters.get(name, 0) + number
        return counters

    def _choose_code(self, kind: str, code: str) -> str:
        if kind == "closed":  # under the name that counted it when it was opened
            return code if code in self._codes["opened"] else OTHERS
        codes = self._codes[kind]
        if code not in codes and len(codes) >= MAX_CODES:
            return OTHERS
        codes.add(code)
        return code


def sum_counters(counters: Mapping[str, int]) -> Counts:
    """Return the counts of a whole scan, over all outputs."""
    counts = Counts()
    for name, number in counters.items():
        kind, _, rest = name.removeprefix(_PREFIX).partition(".")
        if not name.startswith(_PREFIX):
            continue
        if kind in TOTALS:
            setattr(counts, kind, number)
        elif kind in BY_CODE:
            getattr(counts, kind)[rest.partition(".")[2]] += number
    return counts
