"""Which tests can notice a change: those that run the changed code, the most likely and the quickest first."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tests.mutations.mutants import Mutant, list_sources
from tests.mutations.probes import map_lines
from tests.mutations.tree import ROOT

MIN_WORD = 4
START_SECONDS = 0.1  # what a test takes beside its own time, for its fixtures
# These read signatures and default values without running the functions that have them.
READERS = (
    "tests/cli/test_reference.py::test_the_reference_is_up_to_date",
    "tests/unit/test_public.py::test_the_defaults_of_arguments",
)
_BLOCK = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


class Witness(NamedTuple):
    """A test that runs the changed code, or code that uses it."""

    test: str
    seconds: float
    focus: float = 1.0  # how much of what it runs is in the changed file

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]


class Witnesses:
    """The recorded tests by the code that they run."""

    def __init__(self, lines: Iterable[dict[str, Any]]) -> None:
        latest: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        for line in lines:
            if "hash" in line:  # the tests of this file follow
                latest[line["file"]].clear()
            elif line["passed"]:
                latest[line["test"].partition("::")[0]][line["test"]] = line
        self._seconds: dict[str, float] = {}
        self._breadths: dict[str, Counter[str]] = {}
        self._by_segment: dict[str, list[str]] = defaultdict(list)
        for line in (line for tests in latest.values() for line in tests.values()):
            self._seconds[line["test"]] = line["seconds"]
            self._breadths[line["test"]] = Counter(segment.partition(":")[0] for segment in line["runs"])
            for segment in line["runs"]:
                self._by_segment[segment].append(line["test"])
        self._texts = {file: (ROOT / file).read_text(encoding="utf-8") for file in list_sources()}
        trees = {file: ast.parse(text) for file, text in self._texts.items() if file.endswith(".py")}
        self._lines = {file: map_lines(tree, file) for file, tree in trees.items()}
        self._definitions = {file: _list_definitions(tree) for file, tree in trees.items()}

    def find(self, mutant: Mutant) -> list[Witness]:
        """Return the tests that run what was changed, the best ones first. Without any, no test runs it."""
        tests = {test for segment in self._find_segments(mutant) for test in self._by_segment[segment]}
        words = self._list_words(mutant)

        def rank(witness: Witness) -> tuple[int, float, str]:
            return (
                -len(words & _split_words(witness.test)),
                (witness.seconds + START_SECONDS) / witness.focus,
                witness.test,
            )

        readers = self._list_readers(mutant)
        described = sorted((self._describe(test, mutant.file) for test in tests - readers), key=rank)
        return [*sorted(self._describe(test, mutant.file) for test in readers), *described]

    def _list_readers(self, mutant: Mutant) -> set[str]:
        if mutant.file.endswith(".sql") or mutant.change.line in self._lines[mutant.file]:
            return set()
        return {test for test in self._seconds if test.startswith(READERS)}

    def _list_words(self, mutant: Mutant) -> set[str]:
        """Words of the file's path, and of the function or statement. Tests have names with the same words."""
        if mutant.file.endswith(".sql"):
            backend = mutant.file.split("/")[3]
            return {backend, *_split_words(self._find_block(mutant))}
        segment = self._lines[mutant.file].get(mutant.change.line, mutant.file)
        return _split_words(segment) - {"swath"}

    def _find_block(self, mutant: Mutant) -> str:
        """Return the name of the SQL statement."""
        names = _BLOCK.findall(self._texts[mutant.file][: mutant.change.start])
        return names[-1] if names else ""

    def _describe(self, test: str, file: str) -> Witness:
        breadths = self._breadths[test]
        folder = f"{file.rpartition('/')[0]}/"  # of SQL statements, which are not recorded
        inside = breadths[file] or sum(count for other, count in breadths.items() if other.startswith(folder))
        return Witness(test, self._seconds[test], (inside + 1) / (breadths.total() + 1))

    def _find_segments(self, mutant: Mutant) -> set[str]:
        if mutant.file.endswith(".sql"):
            return self._list_callers(mutant)
        if segment := self._lines[mutant.file].get(mutant.change.line):
            return {segment} if self._by_segment[segment] else set()
        return self._list_users(mutant)

    def _list_users(self, mutant: Mutant) -> set[str]:
        """The segments that use a constant, a class or a function's default values."""
        statement = self._find_definition(mutant.file, mutant.change.line)
        if statement is not None:
            inside = self._list_inside(mutant.file, statement)
            if found := inside or self._list_mentions(_names_of(statement)):
                return found
        return {segment for segment in self._by_segment if segment.startswith(f"{mutant.file}:")}

    def _find_definition(self, file: str, line: int) -> ast.stmt | None:
        """Return the innermost statement of a module or class at a line outside of functions."""
        for statement in self._definitions[file]:
            if statement.lineno <= line <= (statement.end_lineno or 0):
                return statement
        return None

    def _list_inside(self, file: str, statement: ast.stmt) -> set[str]:
        lines = range(statement.lineno, (statement.end_lineno or 0) + 1)
        return {self._lines[file][line] for line in lines if line in self._lines[file]}

    def _list_mentions(self, names: Sequence[str]) -> set[str]:
        pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, names)) + r")\b")
        return self._list_matches(pattern, "src/swath/") if names else set()

    def _list_matches(self, pattern: re.Pattern[str], folder: str) -> set[str]:
        """The segments of lines that match, or of the functions in whose signature they are."""
        found: set[str] = set()
        for file in self._lines:
            if file.startswith(folder) and pattern.search(self._texts[file]):
                for number, line in enumerate(self._texts[file].splitlines(), 1):
                    if pattern.search(line):
                        if number in self._lines[file]:
                            found.add(self._lines[file][number])
                        elif (statement := self._find_definition(file, number)) is not None:
                            found |= self._list_inside(file, statement)
        return found

    def _list_callers(self, mutant: Mutant) -> set[str]:
        """The segments that name a statement, or a function that calls it. A computed name may be any."""
        folder = "/".join(mutant.file.split("/")[:4]) + "/"
        blocks: dict[str, str] = {}
        for file, text in self._texts.items():
            if file.startswith(folder) and file.endswith(".sql"):
                parts = _BLOCK.split(text)
                blocks.update(zip(parts[1::2], parts[2::2], strict=True))
        names = {self._find_block(mutant)}
        while more := {
            name
            for name, text in blocks.items()
            if name not in names and any(re.search(rf"\b{other}_\{{set\}}|\{{{other}\}}", text) for other in names)
        }:
            names |= more
        quoted = re.compile('"(?:' + "|".join(names) + ')"')
        return self._list_matches(quoted, folder) or {
            segment for segment in self._by_segment if segment.startswith(folder)
        }


def _list_definitions(tree: ast.AST) -> list[ast.stmt]:
    """The statements of a module and, before the class that contains them, those of its classes."""
    found: list[ast.stmt] = []
    for statement in ast.iter_child_nodes(tree):
        if isinstance(statement, ast.stmt):
            if isinstance(statement, ast.ClassDef):
                found += _list_definitions(statement)
            found.append(statement)
    return found


def _names_of(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.Assign(targets=targets):
            return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
    return []


def _split_words(text: str) -> set[str]:
    """The words of a path, a name or a test, except short ones that say nothing."""
    return {word for word in re.split(r"[^a-z]+", text.lower()) if len(word) >= MIN_WORD}
