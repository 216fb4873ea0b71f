"""Pipelines: functions that change or drop the items that handlers yield."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from swath import UsageError
from swath.crawl.handlers.errors import InvalidYield
from swath.crawl.handlers.items import is_item
from swath.crawl.handlers.page import Page


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A registered pipeline."""

    function: Callable[..., Any]
    takes_page: bool

    def apply(self, item: object, page: Page) -> Any:
        """Return the item for the next pipeline, or None to drop it. Raise InvalidYield if it is something else."""
        returned = self.function(item, page) if self.takes_page else self.function(item)
        if returned is not None and not is_item(returned):
            name = getattr(self.function, "__name__", "")
            raise InvalidYield(
                f"the pipeline {name} returned a value of type {type(returned).__name__}: return an item, or None to "
                "drop it"
            )
        return returned


def make_pipeline(function: Callable[..., Any]) -> Pipeline:
    """Check a function and return it as a pipeline. Raise UsageError if it cannot be one."""
    name = getattr(function, "__name__", f"{function!r:.100}")
    if isinstance(function, type) or not inspect.isroutine(function):
        raise UsageError(f"{name} cannot be a pipeline: decorate a function")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(f"the pipeline {name} is async: use a plain function, and await in the handler")
    if inspect.isgeneratorfunction(function):
        raise UsageError(f"the pipeline {name} is a generator: return the item, or None to drop it")
    signature = inspect.signature(function)
    for arguments in ((None,), (None, None)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return Pipeline(function, len(arguments) == 2)
    raise UsageError(f"the pipeline {name}{signature} takes other arguments: it takes an item, or an item and its page")
