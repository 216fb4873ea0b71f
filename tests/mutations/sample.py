"""Draw random mutants of the code and see which ones the tests notice.

    python -m tests.mutations.sample                  100 mutants with a new seed, which is printed
    python -m tests.mutations.sample --seed 7         the same mutants again, as long as the code is the same
    python -m tests.mutations.sample --only robots    those of files with this in their path
    python -m tests.mutations.sample --tally FILE     count what a person has judged in a report

Each mutant is tested by the tests that ran the changed code when they were recorded, until the first failure. The
report has the diff of each survivor, and a line to judge it: `hole`, if a test should have failed; `tuning`, if it is
only slower, or has another limit that nobody relies on; `equivalent`, if nothing can tell the difference.
"""

import argparse
import collections
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from random import Random, SystemRandom
from typing import NamedTuple

from tests.mutations.mutants import Mutant, sample_mutants
from tests.mutations.pytest_plugin import RUN_ORDER
from tests.mutations.record import RECORD, list_unrecorded_files, read_lines, record_tests
from tests.mutations.tree import ROOT, Outcome, changed_file, copy_tree, run_pytest
from tests.mutations.witnesses import Witness, Witnesses

MIN_TEST_SECONDS = 30.0
FIRST_SECONDS = 5.0
FILE_SECONDS = 1.0  # what it takes to import a file of tests, and what its tests share
TURN = 5  # tests of a file, before those of the next one
SLACK = 10  # how many times longer than recorded a test may take
JUDGEMENTS = ("hole", "tuning", "equivalent")


class Verdict(NamedTuple):
    mutant: Mutant
    fate: str  # killed, timeout or survived
    by: str
    tried: int
    known: int
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations.sample", description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100, metavar="N", help="how many mutants (100)")
    parser.add_argument(
        "--seed", type=int, default=os.environ.get("SWATH_SEED"), metavar="N", help="SWATH_SEED, or a new one"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="files with this text in their path")
    parser.add_argument("--seconds", type=float, default=120.0, metavar="S", help="time of tests for one mutant (120)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many mutants to judge at once (1)")
    parser.add_argument("--tally", type=Path, metavar="FILE", help="count the judgements in a report")
    arguments = parser.parse_args()
    if arguments.tally:
        print(tally(arguments.tally.read_text(encoding="utf-8")))
        return 0
    if files := list_unrecorded_files():
        print(f"recording which code {len(files)} test files run", flush=True)
        record_tests(files)
    seed = SystemRandom().randrange(2**32) if arguments.seed is None else arguments.seed
    print(f"SWATH_SEED={seed}", flush=True)
    report = RECORD.parent / f"report-{seed}.md"
    mutants = sample_mutants(arguments.count, Random(seed), arguments.only)
    verdicts = judge_all(mutants, arguments.seconds, arguments.jobs)
    report.write_text(write_report(seed, verdicts), encoding="utf-8")
    print(f"{summarise(verdicts)}\nJudge the survivors in {report.relative_to(ROOT)}.")
    return 0


def judge_all(mutants: Sequence[Mutant], seconds: float, jobs: int = 1) -> list[Verdict]:
    witnesses = Witnesses(read_lines())
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="swath-mutants-") as directory, ThreadPoolExecutor(jobs) as threads:
        copies: SimpleQueue[Path] = SimpleQueue()  # each mutant needs one for itself
        for number in range(jobs):
            copy = Path(directory) / f"tree-{number}"
            copy.mkdir()
            copy_tree(copy)
            copies.put(copy)

        def judge_one(mutant: Mutant) -> Verdict:
            copy = copies.get()
            try:
                return judge(copy, mutant, witnesses.find(mutant), seconds)
            finally:
                copies.put(copy)

        for verdict in threads.map(judge_one, mutants):
            verdicts.append(verdict)
            print(f"{len(verdicts)}/{len(mutants)} {describe(verdict)}", flush=True)
    return verdicts


def choose(known: Sequence[Witness], seconds: float) -> tuple[list[Witness], list[Witness]]:
    """Choose tests of many files that take as long together: a few that probably notice, and the others."""
    counts: dict[str, int] = collections.Counter()
    turns: list[tuple[int, int, Witness]] = []
    for place, witness in enumerate(known):
        turns.append((counts[witness.file] // TURN, place, witness))
        counts[witness.file] += 1
    first: list[Witness] = []
    rest: list[Witness] = []
    files: set[str] = set()
    total = 0.0
    for _, _, witness in sorted(turns):
        needed = witness.seconds + (0 if witness.file in files else FILE_SECONDS)
        if total + needed > seconds and total:
            continue
        total += needed
        files.add(witness.file)
        (first if total <= FIRST_SECONDS else rest).append(witness)
    return _group(first), _group(rest)


def _group(witnesses: Sequence[Witness]) -> list[Witness]:
    """Let the tests of a file follow each other, so that they share its fixtures."""
    files = list(dict.fromkeys(witness.file for witness in witnesses))
    return sorted(witnesses, key=lambda witness: files.index(witness.file))


def judge(copy: Path, mutant: Mutant, known: Sequence[Witness], seconds: float) -> Verdict:
    """Break the copy and run tests until the first failure."""
    parts = choose(known, seconds)
    started = time.monotonic()

    def verdict(fate: str, by: str) -> Verdict:
        return Verdict(mutant, fate, by, sum(map(len, parts)), len(known), time.monotonic() - started)

    text = (copy / mutant.file).read_text(encoding="utf-8")
    with changed_file(copy / mutant.file, mutant.apply(text)):
        for part in filter(None, parts):
            outcome = run_tests(copy, part)
            if outcome.timed_out:
                return verdict("timeout", "the time limit")
            if outcome.failed is not None:
                return verdict("timeout" if "Timeout (>" in outcome.output else "killed", outcome.failed)
    return verdict("survived", "" if known else "no test runs it")


def run_tests(copy: Path, tests: Sequence[Witness]) -> Outcome:
    order = copy / "order.json"
    limits = {witness.test: max(MIN_TEST_SECONDS, SLACK * witness.seconds) for witness in tests}
    order.write_text(json.dumps(limits), encoding="utf-8")
    arguments = ["-p", "tests.mutations.pytest_plugin", *dict.fromkeys(witness.file for witness in tests)]
    timeout = 2 * MIN_TEST_SECONDS + SLACK * sum(witness.seconds for witness in tests)
    return run_pytest(copy, arguments, timeout=timeout, environment={RUN_ORDER: str(order)})


def describe(verdict: Verdict) -> str:
    where = f"{verdict.mutant.file}:{verdict.mutant.change.line} {verdict.mutant.change.kind}"
    by = verdict.by or f"{verdict.tried} of the {verdict.known} tests that run it"
    return f"{verdict.fate}: {where}: {by} ({verdict.seconds:.0f} s)"


def summarise(verdicts: Sequence[Verdict]) -> str:
    fates = collections.Counter(verdict.fate for verdict in verdicts)
    return f"{len(verdicts)} mutants: " + ", ".join(
        f"{fates[fate]} {fate}" for fate in ("killed", "timeout", "survived")
    )


def write_report(seed: int, verdicts: Sequence[Verdict]) -> str:
    parts = [f"# Mutants, SWATH_SEED={seed}\n\n{summarise(verdicts)}\n"]
    for verdict in verdicts:
        if verdict.fate == "survived":
            text = (ROOT / verdict.mutant.file).read_text(encoding="utf-8")
            parts.append(f"## {describe(verdict)}\n\njudged:\n\n```diff\n{verdict.mutant.diff(text)}\n```\n")
    return "\n".join(parts)


def tally(report: str) -> str:
    """Count what was judged. A survivor that nobody has judged counts as a hole."""
    noticed = sum(int(number) for number in re.findall(r"(\d+) (?:killed|timeout)", report.partition("##")[0]))
    words = re.findall(r"^judged:[ ]*(\w*)", report, re.MULTILINE)
    if unknown := sorted({word for word in words if word and word not in JUDGEMENTS}):
        raise SystemExit(f"{unknown[0]!r} is not a judgement; write {', '.join(JUDGEMENTS)}")
    harmless = sum(word in ("tuning", "equivalent") for word in words)
    behaviour = noticed + len(words) - harmless
    counts = ", ".join(f"{words.count(word)} {word}" for word in JUDGEMENTS)
    rate = f"{noticed} of {behaviour} mutants that change behaviour were noticed, {noticed / max(behaviour, 1):.1%}"
    return f"{rate} ({counts}, {words.count('')} not judged)"


if __name__ == "__main__":
    sys.exit(main())
