"""The demo web stands alone: the standard library and itself, nothing else."""

import inspect
import sys
from pathlib import Path

import swath.testing.web
from tests.unit.test_architecture import imported_names

SOURCE = Path(swath.testing.web.__file__).parent


def test_it_imports_the_standard_library_only() -> None:
    strangers = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for name in imported_names(path)
        if name.split(".")[0] not in sys.stdlib_module_names and not f"{name}.".startswith("swath.testing.web.")
    ]
    assert strangers == []


def test_every_public_name_says_what_it_is() -> None:
    for name in swath.testing.web.__all__:
        if name != "FAULTS":
            assert inspect.getdoc(getattr(swath.testing.web, name)), name
