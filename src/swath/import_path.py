"""Import the objects that the command line names as `module:name`."""

import difflib
import importlib
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from swath.core.errors import SwathError, UsageError

# Where the code of Python, of packages and of swath is.
_NOT_USERS = (
    "<",
    str(Path(__file__).parent),
    *(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")),
)


def import_function(name: str, *, flag: str) -> Callable[..., Any]:
    """Import a function. Like `python -m`, search the current directory too. Error messages name `flag`."""
    found = import_object(name, flag=flag, example="checks:email", noun="function")
    if not callable(found):
        raise UsageError(f"{flag} {name} is of type {type(found).__name__} and cannot be called: name a function")
    called: Callable[..., Any] = found
    return called


def import_object(name: str, *, flag: str, example: str, noun: str = "name") -> Any:
    """Import any object of a module. Error messages name `flag`, and show `example` if there is no colon."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise UsageError(f"{flag} {name!r}: write module:{noun}, such as {flag} {example}")
    module = _import_module(module_name, name=name, flag=flag)
    found: Any = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            near = difflib.get_close_matches(part, [known for known in dir(found) if not known.startswith("_")], n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"{flag} {name}: {module_name} has no attribute {part!r}{meant}") from None
    return found


def _import_module(module: str, *, name: str, flag: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    except SwathError as error:  # the module uses swath in a wrong way, and the message says how
        where = _locate(error)
        known = where is None or where.rpartition(":")[0] in str(error)
        raise UsageError(f"{flag} {name}: {error}" + ("" if known else f" ({where})")) from error
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module}.".startswith(f"{missing}."):
            meant = f"; write {module.removesuffix('.py')}, without .py" if module.endswith(".py") else ""
            raise UsageError(
                f"{flag} {name}: no module named {missing!r} in {here} or among the installed packages{meant}"
            ) from error
        last = str(error) if isinstance(error, ImportError) else traceback.format_exception_only(error)[-1].strip()
        where = _locate(error)
        raise UsageError(
            f"{flag} {name}: {module} cannot be imported: {last}" + ("" if where is None else f" ({where})")
        ) from error


def _locate(error: Exception) -> str | None:
    """Return file:line of the user's code where an import failed, if it is known."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith(_NOT_USERS)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
