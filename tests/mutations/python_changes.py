"""Small changes of a Python module: conditions, numbers, calls, statements, arguments, returned values.

Texts, annotations, imports and what is logged are left alone: no behaviour depends on them.
"""

import ast
from collections.abc import Iterator

from tests.mutations.change import Change

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
LOGGERS = ("log", "logger", "_log", "_logger")
UNCHANGED_FIELDS = ("annotation", "returns", "decorator_list")
UNCHANGED_ARGUMENTS = ("strict", "repr")  # of zip, of field
ATOMS = (ast.Call, ast.Constant, ast.Name, ast.Attribute, ast.Await)


def list_python_changes(text: str) -> list[Change]:
    return list(_Module(text).visit(ast.parse(text)))


class _Module:
    """Turns changed nodes into changes of the text, so that everything else stays as it is."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def visit(self, node: ast.AST) -> Iterator[Change]:
        if _is_left_alone(node):
            return
        for kind, old, new in _changes_of(node):
            yield self._change(kind, old, new)
        for field, value in ast.iter_fields(node):
            if field in UNCHANGED_FIELDS:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self.visit(child)

    def _change(self, kind: str, old: ast.expr | ast.stmt, new: ast.AST) -> Change:
        assert old.end_lineno is not None
        assert old.end_col_offset is not None
        text = ast.unparse(new)
        if isinstance(new, ast.expr) and not isinstance(new, ATOMS):
            text = f"({text})"
        start = self._offset(old.lineno, old.col_offset)
        return Change(kind, old.lineno, start, self._offset(old.end_lineno, old.end_col_offset), text)

    def _offset(self, line: int, column: int) -> int:
        """The position in the text. The columns of nodes count bytes."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in LOGGERS
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.keyword(arg=name):
            return name in UNCHANGED_ARGUMENTS
    return False


def _changes_of(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, ast.AST]]:
    """Yield what kind of change, the node, and what replaces it."""
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield from _negations([test])
        case ast.comprehension(ifs=tests):
            yield from _negations(tests)
    match node:
        case ast.Compare():
            for place, comparison in enumerate(node.ops):
                for other in COMPARISONS[type(comparison)]:
                    operators = [*node.ops[:place], other(), *node.ops[place + 1 :]]
                    yield "comparison", node, ast.Compare(node.left, operators, node.comparators)
        case ast.BoolOp(op=operator, values=values):
            yield "and/or", node, ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
            for place in range(len(values)):
                rest = values[:place] + values[place + 1 :]
                yield "dropped condition", node, rest[0] if len(rest) == 1 else ast.BoolOp(operator, rest)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "negation", node, operand
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in ARITHMETIC:
            yield "arithmetic", node, ast.BinOp(left, ARITHMETIC[type(operator)](), right)
        case ast.Constant(value=bool(value)):
            yield "constant", node, ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield "constant", node, ast.Constant(value + 1)
            if value >= 1:
                yield "constant", node, ast.Constant(value - 1)
        case ast.Call(func=function, args=arguments, keywords=keywords):
            if isinstance(function, ast.Name) and function.id in FUNCTIONS:
                yield "function", node, ast.Call(ast.Name(FUNCTIONS[function.id]), arguments, keywords)
            for place in range(len(arguments) - 1):
                first, second = arguments[place : place + 2]
                starred = isinstance(first, ast.Starred) or isinstance(second, ast.Starred)
                if not starred and ast.dump(first) != ast.dump(second):
                    swapped = [*arguments[:place], second, first, *arguments[place + 2 :]]
                    yield "swapped arguments", node, ast.Call(function, swapped, keywords)
        case ast.AugAssign(target=target, op=operator, value=value):
            yield "removed statement", node, ast.Pass()
            if type(operator) in ARITHMETIC:
                yield "arithmetic", node, ast.AugAssign(target, ARITHMETIC[type(operator)](), value)
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Delete() | ast.Raise() | ast.Continue() | ast.Break():
            yield "removed statement", node, ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "removed statement", node, ast.Pass()
        case ast.Return(value=ast.expr() as returned) if not isinstance(returned, ast.Constant):
            yield "returned value", node, ast.Return(ast.Constant(None))


def _negations(tests: list[ast.expr]) -> Iterator[tuple[str, ast.expr | ast.stmt, ast.AST]]:
    for test in tests:
        # Changing the operator of these two has the same effect.
        if not isinstance(test, ast.Compare) and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            yield "negation", test, ast.UnaryOp(ast.Not(), test)
