"""What import-linter cannot say: core knows the standard library and itself, nothing else."""

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
