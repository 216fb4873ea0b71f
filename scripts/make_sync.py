"""Write src/swath/sync/surface.py: the plain twin of the async surface, made from its source.

python scripts/make_sync.py           # after a change of Frontier, Claim or open
python scripts/make_sync.py --check   # the tests do this
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "swath"
TARGET = SOURCE / "sync" / "surface.py"

QUOTES = '"""'
HEADER = f"""\
{QUOTES}The async surface, called plainly. Made by scripts/make_sync.py: change its sources and run it.{QUOTES}

"""

TYPES = {
    "AsyncIterator": "Iterator",
    "NewItems": "NewItem | Iterable[NewItem]",
    "Handler": "Callable[[Item], Outcome | None]",
}
# Where a thread is not a task: everything else is passed on as it is.
BODIES = {
    ("Frontier", "add"): "return self._portal.add(self._frontier, items)",
    ("Frontier", "claim"): """
        claim = self._portal.call(self._frontier.claim(limit, lease=lease))
        return None if claim is None else Claim(self._portal, claim)""",
    ("Frontier", "close"): """
        if not self._portal.closed:
            try:
                self._portal.call(self._frontier.close())
            finally:
                self._portal.close()""",
    ("Frontier", "facts"): """
        wanted = keys if isinstance(keys, str) else list(keys)
        return self._portal.call(self._frontier.facts(wanted))""",
    ("Frontier", "reopen"): """
        wanted = keys if isinstance(keys, str) else list(keys)
        return self._portal.call(self._frontier.reopen(wanted, lane=lane))""",
    ("Frontier", "reopen_dead"): """
        wanted = keys if keys is None or isinstance(keys, str) else list(keys)
        return self._portal.call(self._frontier.reopen_dead(wanted, lane=lane, reason=reason))""",
    ("Frontier", "encode"): """
        several = items if isinstance(items, Item | EncodedItem | str) else list(items)
        return self._portal.call(self._portal.encode(self._frontier, several, drop_known))""",
    ("Frontier", "knows"): "return self._frontier.knows(item_hash)",
    ("Frontier", "run"): "return self._portal.run(self._frontier, handler, {options})",
    ("Claim", "settle"): """
        settlement = self._claim.settle(list(outcomes), connection=connection, outputs=outputs)
        if connection is None:
            self._portal.call(settlement)
        else:
            self._portal.step(settlement)""",
}
# Arguments that make no sense there, with the paragraphs that tell of them: without a loop, a claim settles in the
# caller's transaction.
OMITTED = {("Frontier", "run"): ["transaction", "stop"]}
# What is said otherwise there.
SAID = {
    ("Frontier", "add"): (
        "Add one item, an iterable or an async iterable of items",
        "Add one item or an iterable of items",
    ),
    ("Frontier", "run"): (
        "\n        Cancelling the task stops it as cleanly, and so does `stop.request(reason)`.",
        "",
    ),
    ("Claim", "settle"): ("if the call was cancelled", "if the call was interrupted"),
}
NOTES = {
    ("Frontier", "run"): """
        The handler is a plain function, called in up to `workers` threads. A function that runs cannot be cancelled:
        past its time limit, or its lease, it goes on to its end and only then makes room for another; at a stop it is
        left behind after the grace.

        It takes no `transaction`: to commit writes of your own with an outcome, claim and settle by hand, with
        `claim.settle(…, connection=…)`.
        """,
}
ALWAYS = [
    "from types import TracebackType",
    "from typing import Any, Self",
    "from swath import claim as claims",
    "from swath import frontier as frontiers",
    "from swath.sync.portal import Portal",
    "from swath.backends.registry import open as open_async",
    "from swath.backends.registry import suggest_options",
    "from collections.abc import Callable, Iterable, Iterator",
    "from swath.core.item import Outcome",
    "from swath.frontier import NewItem",
]


def main() -> int:
    made = surface()
    if "--check" in sys.argv:
        if TARGET.read_text() != made:
            print(f"{TARGET} is not what its sources make it: run {Path(__file__).name}", file=sys.stderr)
            return 1
    else:
        TARGET.write_text(made)
    return 0


def surface() -> str:
    frontier, claim = _parsed("frontier.py"), _parsed("claim.py")
    opening = _parsed("backends/registry.py")
    body = "\n\n".join(
        [
            _opening(opening),
            _class(claim, "Claim", made_by="claims.Claim", attribute="_claim"),
            _class(frontier, "Frontier", made_by="frontiers.Frontier", attribute="_frontier"),
        ]
    )
    return _formatted(HEADER + "\n".join(_imports(body, frontier, claim, opening)) + "\n\n\n" + body + "\n")


def _parsed(path: str) -> ast.Module:
    return ast.parse((SOURCE / path).read_text())


def _opening(module: ast.Module) -> str:
    function = _function(module.body, "open")
    passed = ", ".join(_passed(function.args))
    doc = _docstring(function).replace("async with swath.open(url)", "with swath.sync.open(url)")
    return (
        f"@suggest_options\ndef open({_arguments(function.args)}) -> 'Frontier':\n    {doc}\n"
        f"    opening = open_async({passed})\n"
        "    portal = Portal()\n"
        "    try:\n"
        "        return Frontier(portal, portal.call(portal.open(opening)))\n"
        "    except BaseException:\n"
        "        portal.close()\n"
        "        raise\n"
    )


def _class(module: ast.Module, name: str, *, made_by: str, attribute: str) -> str:
    source = next(node for node in module.body if isinstance(node, ast.ClassDef) and node.name == name)
    doc = ast.get_docstring(source, clean=False) or ""
    doc = doc.replace("swath.open", "swath.sync.open")
    lines = [
        f"class {name}:",
        f"    {QUOTES}{doc}{QUOTES}",
        "",
        f"    def __init__(self, portal: Portal, {attribute[1:]}: {made_by}) -> None:",
        "        self._portal = portal",
        f"        self.{attribute} = {attribute[1:]}",
        "",
    ]
    if name == "Frontier":
        lines += [
            "    def __enter__(self) -> Self:",
            "        return self",
            "",
            "    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,",
            "                 trace: TracebackType | None) -> None:",
            "        self.close()",
            "",
        ]
    lines += [
        "    def __repr__(self) -> str:",
        f"        return f'<swath.sync of {{self.{attribute}!r}}>'",
        "",
    ]
    _check_attributes(source, name)
    for method in _public(source):
        lines += [_method(name, method, attribute), ""]
    return "\n".join(lines)


def _check_attributes(source: ast.ClassDef, name: str) -> None:
    """Only properties and methods are copied: a public attribute that __init__ sets would be left out."""
    init = _function(source.body, "__init__")
    targets = [node for node in ast.walk(init) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    public = {node.attr for node in targets if not node.attr.startswith("_")}
    if public:
        raise SystemExit(f"{name} sets the public attributes {sorted(public)}: make them properties, or private")


Function = ast.FunctionDef | ast.AsyncFunctionDef


def _public(source: ast.ClassDef) -> Iterator[Function]:
    for node in source.body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            yield node


def _method(owner: str, method: Function, attribute: str) -> str:
    for omitted in OMITTED.get((owner, method.name), []):
        _omit(method.args, omitted)
    arguments = _arguments(method.args)
    returns = _typed(method.returns)
    passed = _passed(method.args, skip_self=True)
    target = f"self.{attribute}.{method.name}"
    call = f"{target}({', '.join(passed)})"
    decorator = ""
    if (owner, method.name) in BODIES:
        options = ", ".join(argument for argument in passed if "=" in argument)
        body = BODIES[owner, method.name].replace("{options}", options).strip()
    elif isinstance(method, ast.FunctionDef):
        if [ast.unparse(decorator) for decorator in method.decorator_list] != ["property"]:
            raise SystemExit(f"{owner}.{method.name} is neither async nor a property: name it in BODIES")
        decorator, body = "    @property\n", f"return {target}"
    elif any(isinstance(node, ast.Yield) for node in ast.walk(method)):
        body = f"return self._portal.iterate({call})"
    else:
        body = f"{'' if returns == 'None' else 'return '}self._portal.call({call})"
    doc = _docstring(method)
    if said := SAID.get((owner, method.name)):
        if said[0] not in doc:
            raise SystemExit(f"{owner}.{method.name} no longer says {said[0]!r}: look at SAID")
        doc = doc.replace(*said)
    for omitted in OMITTED.get((owner, method.name), []):
        doc = "\n\n".join(part for part in doc.split("\n\n") if not part.lstrip().startswith(f"With `{omitted}`"))
    if note := NOTES.get((owner, method.name)):
        doc = doc[: -len(QUOTES)].rstrip() + f"\n{note}{QUOTES}"
    return f"{decorator}    def {method.name}({arguments}) -> {returns}:\n" + (
        f"        {doc}\n" if doc else ""
    ) + f"        {body}"  # fmt: skip


def _arguments(arguments: ast.arguments) -> str:
    for argument in [*arguments.args, *arguments.kwonlyargs]:
        if argument.annotation is not None:
            argument.annotation = ast.parse(_typed(argument.annotation), mode="eval").body
    return ast.unparse(arguments)


def _omit(arguments: ast.arguments, name: str) -> None:
    number = next(number for number, argument in enumerate(arguments.kwonlyargs) if argument.arg == name)
    del arguments.kwonlyargs[number], arguments.kw_defaults[number]


def _passed(arguments: ast.arguments, *, skip_self: bool = False) -> list[str]:
    positional = [argument.arg for argument in arguments.args][skip_self:]
    return positional + [f"{argument.arg}={argument.arg}" for argument in arguments.kwonlyargs]


def _typed(annotation: ast.expr | None) -> str:
    """An annotation as the twin has it."""

    class Plain(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return ast.parse(TYPES[node.id], mode="eval").body if node.id in TYPES else node

    return "None" if annotation is None else ast.unparse(Plain().visit(annotation))


def _docstring(function: Function) -> str:
    doc = ast.get_docstring(function, clean=False)
    return "" if doc is None else f"{QUOTES}{doc}{QUOTES}"


def _function(body: list[ast.stmt], name: str) -> Function:
    return next(node for node in body if isinstance(node, Function) and node.name == name)


def _imports(body: str, *modules: ast.Module) -> Iterator[str]:
    """Those of the sources' imports that the twin needs, too."""
    tree = ast.parse(body)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    lines = {*ALWAYS}
    always = {alias.asname or alias.name for line in ALWAYS for alias in ast.parse(line).body[0].names}  # type: ignore[attr-defined]
    for module in modules:
        for node in module.body:
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if alias.name in used - always - {"Claim", "Frontier"}:
                        lines.add(f"from {node.module} import {alias.name}")
    yield from sorted(lines)


def _formatted(text: str) -> str:
    for command in (["check", "--fix", "--select", "I,F401"], ["format"]):
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", str(TARGET), "-"],
            input=text, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    return text


if __name__ == "__main__":
    sys.exit(main())
