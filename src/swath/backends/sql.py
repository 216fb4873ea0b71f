"""Load SQL statements by name from the `.sql` files of a backend.

A file consists of blocks that begin with `-- name: claim`, followed by comments and one statement. Python
code contains only statements about connections and transactions, and those that create and migrate a frontier.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: ([a-z][a-z0-9_]*)[ \t]*$", re.MULTILINE)


class Statements(Mapping[str, str]):
    """The statements of one file. The KeyError for a missing one names the file."""

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
    """Load the named statements of a file of `package`, without their comments."""
    return parse(read(package, file), source=f"{package}/{file}")


def read(package: str, file: str) -> str:
    """Read the text of a file of `package`."""
    return files(package).joinpath(file).read_text(encoding="utf-8")


def parse(text: str, *, source: str) -> Statements:
    """Split a text into its named blocks, without comments."""
    parts = _NAME.split(text)
    if code := [line for line in parts[0].splitlines() if line.strip() and not line.startswith("--")]:
        raise ValueError(f"{source}: {code[0]!r} is before the first `-- name:`")
    statements: dict[str, str] = {}
    for name, block in zip(parts[1::2], parts[2::2], strict=True):
        if name in statements:
            raise ValueError(f"{source}: statement {name!r} is defined twice")
        lines = [line for line in block.splitlines() if line.strip() and not line.lstrip().startswith("--")]
        if not lines:
            raise ValueError(f"{source}: statement {name!r} is empty")
        statements[name] = "\n".join(lines).rstrip(";")
    return Statements(source, statements)
