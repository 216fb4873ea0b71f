"""Random mutants: one small change of one source file each."""

import difflib
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.mutations.change import Change
from tests.mutations.python_changes import list_python_changes
from tests.mutations.sql_changes import list_sql_changes
from tests.mutations.tree import ROOT

SOURCES = "src/swath"
# They are tests themselves, or generated, or their hash is recorded: any change is noticed.
NOT_MUTATED = (
    "src/swath/conformance/",
    "src/swath/testing/",
    "src/swath/sync/surface.py",
    "src/swath/backends/sqlite/migrations/",
    "src/swath/backends/sqlite/schema.sql",
    "src/swath/backends/postgres/migrations/",
)


class Mutant(NamedTuple):
    file: str
    change: Change

    def apply(self, text: str) -> str:
        return text[: self.change.start] + self.change.new + text[self.change.end :]

    def diff(self, text: str) -> str:
        lines = difflib.unified_diff(
            text.splitlines(), self.apply(text).splitlines(), self.file, self.file, "", "", 2, ""
        )
        return "\n".join(lines)


def list_sources() -> list[str]:
    files = sorted(
        str(path.relative_to(ROOT)) for path in (ROOT / SOURCES).rglob("*") if path.suffix in (".py", ".sql")
    )
    return [file for file in files if not file.startswith(NOT_MUTATED)]


def list_mutants(file: str, text: str) -> list[Mutant]:
    """All mutants of a file that differ from it and from each other."""
    changes = list_python_changes(text) if file.endswith(".py") else list_sql_changes(text)
    different = {(change.start, change.end, change.new): change for change in changes}
    return [Mutant(file, change) for change in different.values() if change.new != text[change.start : change.end]]


def sample_mutants(count: int, random: Random, only: str = "") -> list[Mutant]:
    """Draw mutants from all files alike, the same ones for the same seed and the same sources."""
    everything = [
        mutant
        for file in list_sources()
        if only in file
        for mutant in list_mutants(file, Path(ROOT / file).read_text(encoding="utf-8"))
    ]
    return random.sample(everything, min(count, len(everything)))
