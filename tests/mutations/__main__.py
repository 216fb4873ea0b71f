"""Break each promise once, and see which test catches it.

    python -m tests.mutations                 every mutation under the conformance suite, until the first failure
    python -m tests.mutations --machines      the same under the stateful machines
    python -m tests.mutations --only fence    those with this word in their name or file
    python -m tests.mutations --markdown      the table for tests/README.md

A mutation that survives, or whose text is no longer in its file, fails the run.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.mutations.promises import CONFORMANCE, MACHINES, MUTATIONS, Mutation
from tests.mutations.tree import changed_file, copy_tree, run_pytest

TIMEOUT_SECONDS = 1_200


class Verdict(NamedTuple):
    mutation: Mutation
    caught_by: str | None  # None: it survived
    trouble: str | None
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="WORD", help="mutations with this word in name or file")
    parser.add_argument("--machines", action="store_true", help="the stateful machines instead of the suite")
    parser.add_argument("--markdown", action="store_true", help="print the table of tests/README.md")
    arguments = parser.parse_args()
    chosen = [m for m in MUTATIONS if arguments.only.lower() in f"{m.name} {m.file}".lower()]
    if arguments.machines:
        chosen = [m._replace(tests=MACHINES) for m in chosen if m.tests is CONFORMANCE]
    with tempfile.TemporaryDirectory(prefix="swath-mutations-") as directory:
        copy = Path(directory)
        copy_tree(copy)
        for tests, store in sorted({(mutation.tests, mutation.select) for mutation in chosen}):
            failed = run_tests(copy, tests, store)
            if failed is not None:
                print(f"nothing is mutated, and {failed} fails: mend that first", file=sys.stderr)
                return 2
        verdicts = []
        for mutation in chosen:
            verdict = judge(copy, mutation)
            verdicts.append(verdict)
            print(said(verdict), file=sys.stderr if arguments.markdown else sys.stdout, flush=True)
    if arguments.markdown:
        print(table(verdicts))
    return int(any(verdict.caught_by is None for verdict in verdicts))


def judge(copy: Path, mutation: Mutation) -> Verdict:
    """Break the copy, run the tests until the first failure, and mend it."""
    started = time.monotonic()
    path = copy / mutation.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        return Verdict(mutation, None, f"its text is there {text.count(mutation.old)} times", 0.0)
    with changed_file(path, text.replace(mutation.old, mutation.new)):
        failed = run_tests(copy, mutation.tests, mutation.select)
    return Verdict(mutation, failed, None, time.monotonic() - started)


def run_tests(copy: Path, selection: Sequence[str], select: str) -> str | None:
    """Return the first test that fails, if one does."""
    outcome = run_pytest(copy, ["-k", select, *selection], timeout=TIMEOUT_SECONDS)
    if outcome.timed_out:  # it runs for ever, which nobody overlooks
        return "the time limit"
    return outcome.failed and outcome.failed.rpartition("::")[2]


def said(verdict: Verdict) -> str:
    fate = verdict.trouble or (f"caught by {verdict.caught_by}" if verdict.caught_by else "SURVIVED")
    return f"{fate:<90} {verdict.seconds:5.1f} s  {verdict.mutation.select}: {verdict.mutation.name}"


def table(verdicts: Sequence[Verdict]) -> str:
    lines = ["| mutation | file | caught by |", "|---|---|---|"]
    for mutation, caught_by, trouble, _ in verdicts:
        file = mutation.file.removeprefix("src/swath/backends/")
        lines.append(f"| {mutation.name} | `{file}` | {f'`{caught_by}`' if caught_by else trouble or 'nothing'} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
