"""Check a handler when it is registered: its signature, and the selectors that are written in its code."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from swath import UsageError
from swath.crawl.handlers.errors import InvalidSelector
from swath.crawl.handlers.selection import check_selector
from swath.crawl.handlers.xpath import check_expression

# The methods of a page whose first argument is a selector.
CHECKS: Final = {"css": check_selector, "follow": check_selector, "xpath": check_expression}


@dataclass(frozen=True, slots=True)
class Handler:
    """A registered handler. `name` is how the frontier refers to it."""

    name: str
    function: Callable[..., Any]
    is_async: bool
    """Whether it runs in the event loop; the others run in threads."""
    follows_scope: bool = False
    version: int | str = 1


def make_handler(function: Callable[..., Any], *, links: str | None = None, version: int | str = 1) -> Handler:
    """Check a function and return it as a handler. Raise UsageError if it cannot be one."""
    name = getattr(function, "__name__", "")
    if isinstance(function, type) or not inspect.isroutine(function) or not name.isidentifier():
        raise UsageError(f"{function!r:.100} cannot be a handler: decorate a function that has a name")
    if links not in (None, "scope"):
        raise UsageError(
            f"links={links!r} of {_locate(function)}: pass 'scope' to follow the usual links, or leave it out"
        )
    if type(version) not in (int, str):
        raise UsageError(f"version={version!r} of {_locate(function)}: pass a whole number or a text")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise UsageError(
            f"{_locate(function)}: its arguments are {inspect.signature(function)}, but a handler takes one, the page"
        ) from None
    for line, method, selector in _list_selectors(function):
        try:
            CHECKS[method](selector)
        except InvalidSelector as error:
            raise InvalidSelector(f"{_locate(function, line)}: {error}") from None
    return Handler(name, function, is_async(function), links == "scope", version)


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether a function is async, or an async generator."""
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _locate(function: Callable[..., Any], line: int = 0) -> str:
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno + line})" if code is not None else ""
    return f"handler {getattr(function, '__name__', function)}{where}"


def _list_selectors(function: Callable[..., Any]) -> Iterator[tuple[int, str, str]]:
    """Yield the lines, methods and selectors of the calls of a page's methods in a function.

    Selectors that are computed, or applied to other objects, are checked when they are used.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):  # no source, such as in a REPL, or a lambda within an expression
        return
    page = next(iter(inspect.signature(function).parameters), None)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=method), args=[ast.Constant(value=str(selector)), *_]):
                if method in CHECKS and _find_root(value) == page:
                    yield node.lineno - 1, method, selector


def _find_root(node: ast.expr) -> str | None:
    """Return the variable that a chain of attributes, calls and indexes starts with."""
    while not isinstance(node, ast.Name):
        match node:
            case ast.Attribute(value=value) | ast.Subscript(value=value):
                node = value
            case ast.Call(func=func):
                node = func
            case _:
                return None
    return node.id
