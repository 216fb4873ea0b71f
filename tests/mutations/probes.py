"""Find out which code a test runs: calls that report a segment, inserted into a copy of the tree.

A segment is a run of statements that are executed together: a branch, or what follows one. It is named after its
function and its number there, so that a change elsewhere in the file renames nothing.
"""

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_BRANCHING = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match)

# What probes call: a module in the copy, because a process under test imports nothing else of ours.
PROBE_MODULE = '''
import os

_directory = os.environ.get("SWATH_PROBES")
_seen = set()
_file = None


def hit(segment):
    global _file
    if segment in _seen or _directory is None:
        return
    _seen.add(segment)
    if _file is None:
        try:
            with open(_directory + "/current") as current:
                _file = os.open(_directory + "/" + current.read(), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError:
            return
    try:
        os.write(_file, segment.encode() + b"\\n")
    except OSError:  # a test closed all files
        pass


def restart():
    """Another test begins, or this process is a child."""
    global _file
    if _file is not None:
        try:
            os.close(_file)
        except OSError:
            pass
    _file = None
    _seen.clear()


def _forget():
    global _file
    _file = None
    _seen.clear()


os.register_at_fork(after_in_child=_forget)
'''


class Probes:
    """The segments that one test runs, in this process and in its children."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def start(self, number: int) -> None:
        """Attribute what runs from now on to a test."""
        following = self.directory / "next"
        following.write_text(str(number))
        os.replace(following, self.directory / "current")

    def read(self, number: int) -> set[str]:
        path = self.directory / str(number)
        return set(path.read_text().split()) if path.exists() else set()


def insert_probes(tree: ast.Module, file: str) -> ast.Module:
    """Return the module with a call at the start of each segment of its functions."""
    for segment in list_segments(tree, file):
        segment.block.insert(segment.block.index(segment.statements[0]), _parse_statement(f"__hit__({segment.name!r})"))
    place = 0
    while place < len(tree.body) and _comes_first(tree.body[place]):
        place += 1
    tree.body.insert(place, _parse_statement("from swath_probes import hit as __hit__"))
    return ast.fix_missing_locations(tree)


class Segment(NamedTuple):
    name: str
    block: list[ast.stmt]
    statements: list[ast.stmt]


def list_segments(tree: ast.Module, file: str) -> list[Segment]:
    """Return the segments of all functions, outer ones first. A name counts within its function."""
    found: list[Segment] = []
    for function, name in _list_functions(tree, ""):
        number = 0
        for block in _list_blocks(function.body):
            for statements in _split_block(block):
                found.append(Segment(f"{file}:{name}:{number}", block, statements))
                number += 1
    return found


def map_lines(tree: ast.Module, file: str) -> dict[int, str]:
    """Map each line inside a function to the name of its innermost segment."""
    lines: dict[int, str] = {}
    for name, _, statements in list_segments(tree, file):
        for line in range(statements[0].lineno, (statements[-1].end_lineno or 0) + 1):
            lines[line] = name
    return lines


def _list_functions(node: ast.AST, inside: str) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    for child in ast.iter_child_nodes(node):
        name = inside
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{inside}.{child.name}".removeprefix(".")
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield child, name
        yield from _list_functions(child, name)


def _list_blocks(block: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """The block and those inside its branching statements, outer ones first. Inner functions are not part of it."""
    yield block
    for statement in list(block):
        if isinstance(statement, _BRANCHING):
            for field in ("body", "orelse", "finalbody"):
                if inner := getattr(statement, field, None):
                    yield from _list_blocks(inner)
            for case in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
                yield from _list_blocks(case.body)


def _split_block(block: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Split after each branching statement, which may not come to its end."""
    statements: list[ast.stmt] = []
    for statement in block:
        if _is_docstring(statement):
            continue
        statements.append(statement)
        if isinstance(statement, _BRANCHING):
            yield statements
            statements = []
    if statements:
        yield statements


def _comes_first(statement: ast.stmt) -> bool:
    return _is_docstring(statement) or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__")


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _parse_statement(text: str) -> ast.stmt:
    return ast.parse(text).body[0]
