"""Import the objects that the command line names as `module:name`."""

import difflib
import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from swath.core.errors import SwathError, UsageError

_IMPORTING = (__file__, importlib.__file__)


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
        raise UsageError(f"{flag} {name}: {error}") from error
    except Exception as error:
        if (
            isinstance(error, ModuleNotFoundError)
            and error.name is not None
            and f"{module}.".startswith(f"{error.name}.")
        ):
            meant = f"; write {module.removesuffix('.py')}, without .py" if module.endswith(".py") else ""
            raise UsageError(
                f"{flag} {name}: no module named {error.name!r} in {here} or among the installed packages{meant}"
            ) from error
        last = str(error) if isinstance(error, ImportError) else traceback.format_exception_only(error)[-1].strip()
        raise UsageError(f"{flag} {name}: {module} cannot be imported: {last}{_locate(error)}") from error


def _locate(error: Exception) -> str:
    """Return in which file and line of the user's code an import failed."""
    if isinstance(error, SyntaxError):
        return f" ({error.filename}:{error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename not in _IMPORTING]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
