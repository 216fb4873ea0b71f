"""The sampler of mutants: what it changes, what it leaves alone, and which tests it chooses."""

import ast
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from swath.backends.sql import parse
from tests.mutations import record
from tests.mutations.mutants import Mutant, list_mutants, list_sources, sample_mutants
from tests.mutations.probes import insert_probes, map_lines
from tests.mutations.sample import Verdict, choose, judge, summarise, tally, write_report
from tests.mutations.tree import ROOT, copy_tree
from tests.mutations.witnesses import READERS, Witness, Witnesses

SQLITE_QUERIES = "src/swath/backends/sqlite/queries.sql"


def changes(text: str, file: str = "module.py") -> set[str]:
    """All that a text is changed into."""
    return {mutant.apply(text) for mutant in list_mutants(file, text)}


def test_the_same_seed_draws_the_same_mutants() -> None:
    first, again, other = (sample_mutants(50, Random(seed), "core/") for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_every_python_mutant_is_another_program() -> None:
    for mutant in sample_mutants(100, Random(5), "scan/"):
        text = (ROOT / mutant.file).read_text(encoding="utf-8")
        assert ast.dump(ast.parse(mutant.apply(text))) != ast.dump(ast.parse(text)), mutant
        assert f"@@ -{max(1, mutant.change.line - 2)}," in mutant.diff(text)


def test_every_mutant_of_sqlite_statements_is_sql() -> None:
    text = (ROOT / SQLITE_QUERIES).read_text(encoding="utf-8")
    schema = (ROOT / "src/swath/backends/sqlite/schema.sql").read_text(encoding="utf-8")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema)
        for mutant in list_mutants(SQLITE_QUERIES, text):
            changed = parse(mutant.apply(text), source=mutant.file)
            (name,) = [name for name, statement in parse(text, source="").items() if changed[name] != statement]
            try:
                connection.execute(f"EXPLAIN {changed[name]}")
            except sqlite3.ProgrammingError:
                pass  # parameters are missing, so it was compiled
            except sqlite3.OperationalError as error:
                if str(error) != "no query solution":  # an index that the statement names cannot be used
                    raise


def test_parentheses_stay_balanced_in_sql() -> None:
    for mutant in sample_mutants(10_000, Random(6), ".sql"):
        changed = mutant.apply((ROOT / mutant.file).read_text(encoding="utf-8"))
        assert changed.count("(") == changed.count(")"), mutant


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a < b", {"(a <= b)", "(a >= b)"}),
        ("a and b", {"(a or b)", "a", "b"}),
        ("x = f(a, *b, c, d, d)", {"x = f(a, *b, d, c, d)"}),
        ("x = n + 7", {"x = (n - 7)", "x = n + 8", "x = n + 6"}),
        ("x = not y", {"x = y"}),
        ("x = min(y)", {"x = max(y)"}),
        ("await x.check()", {"pass"}),
        ("x.y = z", {"pass"}),
        ("if x: y", {"if (not x): y"}),
        ("x = 'ä' if y else z", {"x = 'ä' if (not y) else z"}),
        ("def f(): return x", {"def f(): return None"}),
        ("for x in y: continue", {"for x in y: pass"}),
    ],
)
def test_what_becomes_of_python(text: str, expected: set[str]) -> None:
    assert changes(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "'a docstring with 1 < 2'",
        "import a, b",
        "x: Literal[1]",
        "log.warning('%d', 1)",
        "raise_(f'{1 + 1}')",
        "x = zip(y, strict=True)['z']",
        "@dataclass(frozen=True)\nclass X: ...",
    ],
)
def test_what_python_has_that_stays(text: str) -> None:
    assert changes(text) <= {"pass"}


def test_what_becomes_of_sql() -> None:
    text = "-- name: x\n-- 1 < 2\nSELECT 'a = b' FROM t\nWHERE a <= :b AND c = {FOUR}\n    AND d IS NULL\n"
    text += "ORDER BY e LIMIT 1;\n"
    lines = {line for changed in changes(text, "x.sql") for line in changed.splitlines()} - set(text.splitlines())
    assert lines >= {
        "WHERE a < :b AND c = {FOUR}",
        "WHERE a <= :b OR c = {FOUR}",
        "WHERE a <= :b AND c <> {FOUR}",
        "    AND d IS NOT NULL",
        "    OR d IS NULL",
        "",
        "ORDER BY e DESC LIMIT 1;",
        "ORDER BY e LIMIT 2;",
    }
    assert "UPDATE t SET a <> 1" not in changes("UPDATE t SET a = 1", "x.sql")


@pytest.fixture
def ran() -> tuple[set[str], dict[int, str], Callable[[int], str]]:
    text = (
        "def f(x):\n"
        "    'a docstring'\n"
        "    if x:\n"
        "        return 'a'\n"
        "    y = 'b'\n"
        "    return y\n"
    )  # fmt: skip
    seen: set[str] = set()
    program = insert_probes(ast.parse(text), "m.py")
    program.body = [statement for statement in program.body if not isinstance(statement, ast.ImportFrom)]
    names: dict[str, Callable[[int], str]] = {"__hit__": seen.add}  # type: ignore[dict-item]
    exec(compile(program, "m.py", "exec"), names)
    return seen, map_lines(ast.parse(text), "m.py"), names["f"]


def test_probes_say_which_branch_ran(ran: tuple[set[str], dict[int, str], Callable[[int], str]]) -> None:
    seen, lines, f = ran
    assert f(1) == "a"
    assert seen == {lines[3], lines[4]}
    assert f(0) == "b"
    assert seen == {lines[3], lines[4], lines[5]}
    assert lines[5] == lines[6]
    assert f.__doc__ == "a docstring"


def witnesses_of(runs: dict[str, list[str]]) -> Witnesses:
    lines: list[dict[str, object]] = [{"file": "tests/test_x.py", "hash": "1"}]
    for test, segments in runs.items():
        lines.append(
            {"test": f"tests/test_x.py::{test}", "seconds": 1.0, "passed": test != "failing", "runs": segments}
        )
    return Witnesses(lines)


def find(witnesses: Witnesses, mutant: Mutant) -> list[str]:
    return [witness.test.rpartition("::")[2] for witness in witnesses.find(mutant)]


def test_tests_that_run_the_changed_code_are_chosen() -> None:
    file = "src/swath/core/retry_policy.py"
    text = (ROOT / file).read_text(encoding="utf-8")
    mutant = next(
        mutant for mutant in list_mutants(file, text) if mutant.change.line in map_lines(ast.parse(text), file)
    )
    segment = map_lines(ast.parse(text), file)[mutant.change.line]
    witnesses = witnesses_of({"broad": [segment, "x", "y"], "narrow": [segment], "failing": [segment], "other": ["x"]})
    assert find(witnesses, mutant) == ["narrow", "broad"]


def test_tests_that_run_a_statement_are_chosen() -> None:
    """Of a stored function, those that call a function which calls it."""
    folder = "src/swath/backends/postgres"
    calling = (ROOT / folder / "store.py").read_text(encoding="utf-8")
    line = next(number for number, line in enumerate(calling.splitlines(), 1) if '"claim",' in line)
    witnesses = witnesses_of({"claiming": [map_lines(ast.parse(calling), f"{folder}/store.py")[line]], "other": ["x"]})
    file = f"{folder}/functions/lease.sql"
    mutant = list_mutants(file, (ROOT / file).read_text(encoding="utf-8"))[0]
    assert find(witnesses, mutant) == ["claiming"]


def test_tests_that_read_signatures_are_chosen_for_defaults() -> None:
    """They run none of the function, but say what its defaults are."""
    lines: list[dict[str, object]] = [{"file": file.partition("::")[0], "hash": "1"} for file in READERS]
    lines += [{"test": f"{test}[x]", "seconds": 1.0, "passed": True, "runs": ["x"]} for test in READERS]
    file = "src/swath/frontier.py"
    text = (ROOT / file).read_text(encoding="utf-8")
    place = text.index("limit: int = 100, *, lease") + len("limit: int = ")
    (default, *_) = (mutant for mutant in list_mutants(file, text) if mutant.change.start == place)
    inside = next(mutant for mutant in list_mutants(file, text) if mutant.change.kind == "returned value")
    assert [witness.test for witness in Witnesses(lines).find(default)] == [f"{test}[x]" for test in READERS]
    assert Witnesses(lines).find(inside) == []


def test_tests_of_many_files_are_chosen_within_a_time() -> None:
    known = [Witness(f"{file}::{n}", 0.5) for file in "abcdefgh" for n in range(9)]
    first, rest = ([witness.test for witness in part] for part in choose(known, 12.0))
    assert first == ["a::0", "a::1", "a::2", "a::3", "a::4", "b::0"]
    assert rest == [*(f"b::{n}" for n in range(1, 5)), *(f"c::{n}" for n in range(5)), "d::0"]
    assert choose(known, 0.1) == ([known[0]], []), "one that takes longer is better than none"


def test_a_survivor_counts_as_a_hole_until_it_is_judged() -> None:
    report = "4 mutants: 2 killed, 1 timeout, 4 survived\n\n## survived\n\n"
    report += "judged: hole\njudged: tuning, a buffer\njudged: equivalent\njudged:\n"
    assert tally(report).startswith("3 of 5 mutants that change behaviour were noticed, 60.0%")
    with pytest.raises(SystemExit, match="'perhaps' is not a judgement"):
        tally("## survived\n\njudged: perhaps\n")


@pytest.mark.timeout(600)
def test_what_was_recorded_finds_the_test_that_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the record of two test files to the verdict, in processes as `make mutations` starts them."""
    monkeypatch.setattr(record, "RECORD", tmp_path / "record" / "record.jsonl")
    record.record_tests(["tests/unit/test_passwords.py", "tests/unit/test_retry_policy.py"])
    assert not {"tests/unit/test_passwords.py", "tests/unit/test_retry_policy.py"} & {*record.list_unrecorded_files()}
    lines = record.read_lines()
    while_collected = "src/swath/core/counters.py:Counters.__init__:0"  # of the constant NO_COUNTERS
    assert all(while_collected in line["runs"] for line in lines if "test" in line)
    witnesses = Witnesses(lines)
    file = "src/swath/core/retry_policy.py"
    mutants = list_mutants(file, (ROOT / file).read_text(encoding="utf-8"))
    mutant = next(mutant for mutant in mutants if mutant.change.kind == "returned value")
    known = witnesses.find(mutant)
    assert {witness.file for witness in known} == {"tests/unit/test_retry_policy.py"}
    copy = tmp_path / "copy"
    copy.mkdir()
    copy_tree(copy)
    verdict = judge(copy, mutant, known, 60.0)
    assert (verdict.fate, verdict.known) == ("killed", len(known))
    assert verdict.by.startswith("tests/unit/test_retry_policy.py::")
    assert (copy / file).read_bytes() == (ROOT / file).read_bytes(), "the copy is mended"
    assert summarise([verdict]) == "1 mutants: 1 killed, 0 timeout, 0 survived"


def test_the_report_shows_a_survivor_and_a_place_to_judge_it() -> None:
    mutant = sample_mutants(1, Random(8), "core/")[0]
    report = write_report(
        8, [Verdict(mutant, "survived", "", 3, 9, 1.0), Verdict(mutant, "killed", "test_x", 1, 9, 1.0)]
    )
    assert "SWATH_SEED=8" in report
    assert report.count("\njudged:\n") == 1
    assert "3 of the 9 tests that run it" in report
    assert f"+++ {mutant.file}" in report
    assert tally(report).startswith("1 of 2 mutants that change behaviour were noticed, 50.0%")


def test_sources_that_are_tests_are_not_mutated() -> None:
    files = list_sources()
    assert "src/swath/frontier.py" in files
    assert not [file for file in files if "testing" in file or "conformance" in file]
