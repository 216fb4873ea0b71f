"""Which tests can notice a change: those that run the changed code, the most likely and the quickest first."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tests.mutations.mutants import Mutant, list_sources
from tests.mutations.probes import map_lines
from tests.mutations.tree import ROOT

START_SECONDS = 0.1  # what a test takes beside its own time, for its fixtures
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
        self._lines = {
            file: map_lines(ast.parse(text), file) for file, text in self._texts.items() if file.endswith(".py")
        }

    def find(self, mutant: Mutant) -> list[Witness]:
        """Return the tests that run what was changed, the best ones first. Without any, no test runs it."""
        tests = {test for segment in self._find_segments(mutant) for test in self._by_segment[segment]}
        words = {*re.split(r"[/._]", mutant.file)} - {"src", "swath", "py", "sql", "test"}

        def rank(witness: Witness) -> tuple[bool, float, str]:
            alike = words & {*re.split(r"[/._]", witness.file)}
            return not alike, (witness.seconds + START_SECONDS) / witness.focus, witness.test

        return sorted((self._describe(test, mutant.file) for test in tests), key=rank)

    def _describe(self, test: str, file: str) -> Witness:
        breadths = self._breadths[test]
        return Witness(test, self._seconds[test], (breadths[file] + 1) / (breadths.total() + 1))

    def _find_segments(self, mutant: Mutant) -> set[str]:
        if mutant.file.endswith(".sql"):
            return self._list_callers(mutant)
        if segment := self._lines[mutant.file].get(mutant.change.line):
            return {segment} if self._by_segment[segment] else set()
        return self._list_users(mutant)

    def _list_users(self, mutant: Mutant) -> set[str]:
        """The segments that use a constant, a class or a function's default values."""
        for statement in _list_definitions(ast.parse(self._texts[mutant.file])):
            if statement.lineno <= mutant.change.line <= (statement.end_lineno or 0):
                inside = {
                    self._lines[mutant.file][line]
                    for line in range(statement.lineno, (statement.end_lineno or 0) + 1)
                    if line in self._lines[mutant.file]
                }
                return inside or self._list_mentions(_names_of(statement))
        return {segment for segment in self._by_segment if segment.startswith(f"{mutant.file}:")}

    def _list_mentions(self, names: Sequence[str]) -> set[str]:
        pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, names)) + r")\b")
        return self._list_matches(pattern, "src/swath/") if names else set()

    def _list_matches(self, pattern: re.Pattern[str], folder: str) -> set[str]:
        return {
            self._lines[file][number]
            for file, text in self._texts.items()
            if file in self._lines and file.startswith(folder)
            for number, line in enumerate(text.splitlines(), 1)
            if number in self._lines[file] and pattern.search(line)
        }

    def _list_callers(self, mutant: Mutant) -> set[str]:
        """The segments that name a statement, or a function that calls it. A computed name may be any."""
        folder = "/".join(mutant.file.split("/")[:4]) + "/"
        blocks: dict[str, str] = {}
        for file, text in self._texts.items():
            if file.startswith(folder) and file.endswith(".sql"):
                parts = _BLOCK.split(text)
                blocks.update(zip(parts[1::2], parts[2::2], strict=True))
        names = set(_BLOCK.findall(self._texts[mutant.file][: mutant.change.start])[-1:])
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
