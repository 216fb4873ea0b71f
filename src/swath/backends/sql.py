"""Statements by name: every move and every question of a store is written in an `.sql` file. In Python are only
statements about a connection or a transaction, and those that create and migrate a frontier.

A file is a row of blocks, each opened by `-- name: some_move`; the comment lines that follow give the reason.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: ([a-z][a-z0-9_]*)[ \t]*$", re.MULTILINE)


class Statements(Mapping[str, str]):
    """The statements of one file; asking for one that is not there says which file lacks it."""

    def __init__(self, source: str, statements: Mapping[str, str]) -> None:
        self.source = source
        self._statements = dict(statements)

    def __getitem__(self, name: str) -> str:
        try:
            return self._statements[name]
        except KeyError:
            raise KeyError(f"{self.source} has no statement named {name!r}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._statements)

    def __len__(self) -> int:
        return len(self._statements)


@cache
def load(package: str, file: str) -> Statements:
    """The named statements of a file that is shipped inside `package`, without their comments."""
    return parse(read(package, file), source=f"{package}/{file}")


def read(package: str, file: str) -> str:
    """The text of a file that is shipped inside `package`."""
    return files(package).joinpath(file).read_text(encoding="utf-8")


def parse(text: str, *, source: str) -> Statements:
    """Cut a text into its named blocks; comments before the first statement line are for readers only."""
    parts = _NAME.split(text)
    if code := [line for line in parts[0].splitlines() if line.strip() and not line.startswith("--")]:
        raise ValueError(f"{source}: {code[0]!r} stands before the first `-- name:`")
    statements: dict[str, str] = {}
    for name, block in zip(parts[1::2], parts[2::2], strict=True):
        if name in statements:
            raise ValueError(f"{source}: statement {name!r} is there twice")
        lines = [line for line in block.splitlines() if line.strip() and not line.lstrip().startswith("--")]
        if not lines:
            raise ValueError(f"{source}: statement {name!r} is empty")
        statements[name] = "\n".join(lines).rstrip(";")
    return Statements(source, statements)
