"""Printing: tables and panels on a terminal, plain and stable text elsewhere, JSON on request.

Every function escapes the control characters in what it prints.
"""

import json
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from rich import box
from rich.console import Console, RenderableType
from rich.constrain import Constrain
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from swath.cli.formatting import escape

MARGIN = 4  # columns that a live display leaves free: a ^C that the terminal echoes must not wrap and break the display
TABLE_ROWS = 1_000  # rows that are laid out together; further rows start another table

Pairs = Iterable[tuple[str, str]]


def make_console(*, stderr: bool = False) -> Console:
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether a stream, by default standard output, is a terminal."""
    return (stream or sys.stdout).isatty()


def print_error(message: str) -> None:
    """Print one line to standard error."""
    print(f"swath: {escape(message)}", file=sys.stderr, flush=True)


def print_note(message: str, *, always: bool = False) -> None:
    """Print a remark for people to standard error.

    Scripts do not need remarks, so nothing is printed if standard output is not a terminal, unless `always` is set.
    """
    if always or is_terminal():
        make_console(stderr=True).print(Text(escape(message), style="dim"))


def print_json(data: Mapping[str, Any]) -> None:
    """Print one JSON document."""
    print(json.dumps(data, indent=2, ensure_ascii=_needs_ascii()))


def print_json_line(data: Mapping[str, Any]) -> None:
    """Print one line of JSON Lines."""
    print(json.dumps(data, ensure_ascii=_needs_ascii()), flush=is_terminal())


async def print_json_lines(documents: AsyncIterator[Mapping[str, Any]]) -> int:
    """Print documents as JSON Lines as they arrive and return their number."""
    count = 0
    async for data in documents:
        print_json_line(data)
        count += 1
    return count


def _needs_ascii() -> bool:
    return sys.stdout.encoding.lower().replace("-", "") != "utf8"


def print_facts(title: str, pairs: Pairs) -> None:
    """Print names and values: a panel on a terminal, `name<tab>value` lines elsewhere."""
    if is_terminal():
        make_console().print(make_panel(title, pairs))
    else:
        for name, value in pairs:
            print(f"{name}\t{escape(value)}")


def make_panel(title: str, pairs: Pairs, *, footer: RenderableType | None = None) -> Panel:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(name, Text(escape(value, keep="\n")))
    body: RenderableType = grid
    if footer is not None:
        body = Table.grid()
        body.add_row(grid)
        body.add_row(footer)
    return Panel(body, title=Text(escape(title), style="bold"), title_align="left", border_style="dim", expand=False)


@contextmanager
def open_live_display(*, transient: bool) -> Iterator[Callable[[RenderableType], None]]:
    """Yield a function that redraws the display. A transient display is erased at the end."""
    from rich.live import Live  # imported here because most commands do not need it

    console = make_console()
    with Live(console=console, auto_refresh=False, transient=transient) as display:
        yield lambda drawing: display.update(Constrain(drawing, max(20, console.width - MARGIN)), refresh=True)


async def print_rows(columns: Sequence[str], rows: AsyncIterator[Sequence[str]], *, right: Iterable[str] = ()) -> int:
    """Print rows as they arrive, in bounded memory, and return their number.

    On a terminal they are tables, with the columns named in `right` aligned to the right; elsewhere they are
    tab-separated.
    """
    count = 0
    table = _make_table(columns, right)
    async for row in rows:
        count += 1
        if not is_terminal():
            print("\t".join(escape(cell) for cell in row))
            continue
        table.add_row(*(Text(escape(cell, keep="\n")) for cell in row))
        if table.row_count == TABLE_ROWS:
            make_console().print(table)
            table = _make_table(columns, right)
    if is_terminal() and table.row_count:
        make_console().print(table)
    return count


def _make_table(columns: Sequence[str], right: Iterable[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold cyan", expand=False)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return table
