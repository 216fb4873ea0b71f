"""What import-linter cannot say: core knows the standard library and itself, nothing else, and the command line prints
with the functions that escape."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


def imported_names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, level=0) if module is not None:
                yield module
            case ast.ImportFrom(level=level):
                assert level == 1, f"{path}:{node.lineno} imports from a parent by dots"


def test_core_imports_the_standard_library_only() -> None:
    strangers = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in sorted((SOURCE / "swath" / "core").rglob("*.py"))
        for name in imported_names(path)
        if name.split(".")[0] not in sys.stdlib_module_names and not f"{name}.".startswith("swath.core.")
    ]
    assert strangers == []


# These print constants, and names that swath chooses.
PRINTERS = {"__init__.py", "complete.py", "completion.py", "terminal.py"}


def test_the_command_line_prints_with_functions_that_escape() -> None:
    calls = [
        f"{path.name}:{node.lineno}"
        for path in sorted((SOURCE / "swath" / "cli").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(), str(path)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
        if path.name not in PRINTERS
    ]
    assert calls == [], "use print_line of swath.cli.terminal"
