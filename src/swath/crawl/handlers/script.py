"""`crawler.run()`: run the command from a script that defines a crawler."""

import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path

from swath import UsageError
from swath.crawl.handlers.code import FLAG, provide
from swath.crawl.handlers.crawler import Crawler

UNNAMED = "a crawler without a name"


def run_script(crawler: Crawler, arguments: Sequence[str]) -> int:
    """Run `swath crawl --run` with this crawler, as a process of its own would do, and return its exit code."""
    name = find_crawler_name(crawler)
    if name is None and any(one == "--processes" or one.startswith("--processes=") for one in arguments):
        raise UsageError(
            "--processes needs a crawler at the top level of a module, because each process imports it: assign it to a "
            "global variable"
        )
    name = name or UNNAMED
    provide(name, crawler)
    # The command line is above this package, so it is found by its entry point instead of an import.
    (command,) = entry_points(group="console_scripts", name="swath")
    before = sys.argv
    sys.argv = ["swath", "crawl", FLAG, name, *arguments]
    try:
        code: int = command.load()()
    finally:
        sys.argv = before
    return code


def find_crawler_name(crawler: Crawler) -> str | None:
    """Return module:name of the crawler, as another process can import it; None if no module has it."""
    for module in dict.fromkeys(["__main__", *(one.function.__module__ for one in crawler.handlers.values())]):
        importable = _find_importable_name(module)
        for name, value in vars(sys.modules[module]).items() if importable is not None else ():
            if value is crawler:
                return f"{importable}:{name}"
    return None


def _find_importable_name(module: str) -> str | None:
    """Return the name that another process can import a module by; None if there is none, such as in a REPL."""
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    if (spec := getattr(main, "__spec__", None)) is not None:  # python -m
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return Path(file).stem if file is not None and file.endswith(".py") else None
