"""Printing: tables and panels on a terminal, plain and stable text elsewhere, JSON on request.

Every command prints with these functions. They escape what does not print, and they leave it to the terminal to wrap
what people copy: a box or a table is drawn only if it holds every value in one piece.
"""

import logging
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import TextIOBase
from types import TracebackType
from typing import Any, TextIO, cast

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from swath.cli.formatting import dump_json, escape
from swath.logs.lines import format_time

TABLE_ROWS = 1_000  # rows that are laid out together; further rows start another table
MIN_PROSE_WIDTH = 24  # columns of a terminal; a narrower last column would make a table hard to read
COLUMN_GAP = 2  # between two columns of a table
UNLIMITED_WIDTH = 100_000  # for measuring

Pairs = Iterable[tuple[str, str | Text]]


class PlainConsole(Console):
    """A console that neither wraps text nor interprets it."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, highlight=False, emoji=False)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print. The terminal wraps a text that is too long, so that people can copy it in one piece."""
        if objects and all(isinstance(one, Text) for one in objects):
            options.setdefault("soft_wrap", True)
        super().print(*objects, **options)


def make_console(*, stderr: bool = False) -> Console:
    return PlainConsole(stderr=stderr)


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether a stream, by default standard output, is a terminal."""
    return (stream or sys.stdout).isatty()


# Text


def print_line(text: str, *, stderr: bool = False, keep: str = "\n") -> None:
    """Print a text with its line breaks, and flush it: a reader may wait for it. Escape what is not in `keep`."""
    print(escape(text, keep=keep), file=sys.stderr if stderr else sys.stdout, flush=True)


def print_progress(text: str) -> None:
    """Print a progress line to standard output, with the time."""
    print_line(f"{format_time(time.time())} {text}")


def print_question(text: str) -> None:
    """Print a question to standard error, with the cursor behind it."""
    print(f"{escape(text)} [y/N] ", end="", file=sys.stderr, flush=True)


def print_error(message: str) -> None:
    """Print one line to standard error."""
    print(f"swath: {escape(message)}", file=sys.stderr, flush=True)


def print_note(message: str, *, always: bool = False) -> None:
    """Print a remark for people to standard error.

    Scripts do not need remarks, so nothing is printed if standard output is not a terminal, unless `always` is set.
    """
    if always or is_terminal():
        make_console(stderr=True).print(Text(escape(message), style="dim"))


class EscapingFormatter(logging.Formatter):
    """Formats log records without characters that do not print: their messages quote URLs and errors of servers. If
    standard error is not a terminal, they have a time."""

    def format(self, record: logging.LogRecord) -> str:
        text = escape(super().format(record), keep="\n")
        return text if is_terminal(sys.stderr) else f"{format_time(record.created)} {text}"


def print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback, as Python does, but escaped. Replaces `sys.excepthook`."""
    print_line("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"), stderr=True)


def escape_standard_error() -> None:
    """Escape tracebacks, and log records that no handler of the user's modules takes."""
    sys.excepthook = print_traceback
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(EscapingFormatter())


class _EscapingStream(TextIOBase):
    """A stream to a terminal that keeps nothing but text and its line breaks."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(escape(text.replace("\r\n", "\n"), keep="\n"))
        return len(text)


def get_output_stream() -> TextIO:
    """Return standard output for data such as exported pages, unchanged unless it is a terminal."""
    return cast(TextIO, _EscapingStream(sys.stdout)) if is_terminal() else sys.stdout


# JSON


def print_json(data: Mapping[str, Any]) -> None:
    """Print one JSON document."""
    print(dump_json(data, indent=2, ensure_ascii=_needs_ascii()))


def print_json_line(data: Mapping[str, Any], *, flush: bool = False) -> None:
    """Print one line of JSON Lines."""
    print(dump_json(data, ensure_ascii=_needs_ascii()), flush=flush or is_terminal())


def print_event(event: str, data: Mapping[str, Any]) -> None:
    """Print a line of --json about something that happened now."""
    print_json_line({"event": event, "time": format_time(time.time()), **data}, flush=True)


async def print_json_lines(documents: AsyncIterator[Mapping[str, Any]]) -> int:
    """Print documents as JSON Lines as they arrive and return their number."""
    count = 0
    async for data in documents:
        print_json_line(data)
        count += 1
    return count


def _needs_ascii() -> bool:
    return sys.stdout.encoding.lower().replace("-", "") != "utf8"


# Names and values


def print_facts(
    title: str, pairs: Pairs, *, header: RenderableType | None = None, note: str = "", border: str = "dim"
) -> None:
    """Print names and values: a panel on a terminal, `name<tab>value` lines elsewhere.

    On a terminal, `header` is above the values and `note` below them. If the panel is wider than the terminal, print
    its lines without a box. A value that is prose is a Text.
    """
    if not is_terminal():
        print_pairs(pairs)
        return
    console, pairs = make_console(), list(pairs)
    panel = make_panel(title, pairs, header=header, note=note, border=border)
    if fits(console, panel):
        console.print(panel)
        return
    console.print(Text(escape(title), style="bold"))
    if header is not None:
        console.print(header)
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        # Prose is wrapped between words; a string may be something to copy, so only the terminal may wrap it.
        is_prose = isinstance(value, Text)
        console.print(Text(f"{name:<{width}}  ", style="cyan") + _to_text(value), soft_wrap=not is_prose)
    if note:
        console.print(Text(escape(note), style="dim"))


def print_pairs(pairs: Pairs) -> None:
    """Print `name<tab>value` lines."""
    for name, value in pairs:
        print(f"{name}\t{escape(str(value))}")


def fits(console: Console, drawing: RenderableType, *, margin: int = 0) -> bool:
    """Return whether a terminal is wide enough to show a drawing, and `margin` columns, without wrapping any value."""
    options = console.options.update(width=UNLIMITED_WIDTH)
    return console.measure(drawing, options=options).maximum + margin <= console.width


def _to_text(value: str | Text) -> Text:
    return value if isinstance(value, Text) else Text(escape(value, keep="\n"))


def make_panel(
    title: str,
    pairs: Pairs,
    *,
    header: RenderableType | None = None,
    footer: RenderableType | None = None,
    note: str = "",
    border: str = "dim",
) -> Panel:
    """Return a panel with names and values. If it is too narrow for a word, the word ends in an ellipsis."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="ellipsis")
    for name, value in pairs:
        grid.add_row(name, _to_text(value))
    body = Table.grid()
    for part in (header, grid, footer):
        if part is not None:
            body.add_row(part)
    return Panel(
        body,
        title=Text(escape(title), style="bold"),
        title_align="left",
        subtitle=Text(escape(note), style="dim") if note else None,
        subtitle_align="right",
        border_style=border,
        expand=False,
    )


@contextmanager
def open_live_display(*, transient: bool) -> Iterator[Callable[[RenderableType], None]]:
    """Yield a function that redraws the display. A transient display is erased at the end."""
    from swath.cli.live_display import LiveDisplay  # imported here because most commands do not need it

    with LiveDisplay(make_console(), transient=transient) as display:
        yield display.draw


# Lists


async def print_rows(columns: Sequence[str], rows: AsyncIterator[Sequence[str]], *, right: Iterable[str] = ()) -> int:
    """Print rows as they arrive, in bounded memory, and return their number.

    On a terminal they are tables, with the columns named in `right` aligned to the right; elsewhere they are
    tab-separated.
    """
    count = 0
    chunk: list[Sequence[str]] = []
    async for row in rows:
        count += 1
        if not is_terminal():
            print("\t".join(escape(cell) for cell in row))
            continue
        chunk.append([escape(cell, keep="\n") for cell in row])
        if len(chunk) == TABLE_ROWS:
            print_table(columns, chunk, right=right)
            chunk = []
    if chunk:
        print_table(columns, chunk, right=right)
    return count


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Iterable[str] = ()) -> None:
    """Print rows on a terminal: as a table if it holds every value in one piece, otherwise one below the other.

    Only the last column may be wrapped, between words.
    """
    console = make_console()
    table = _make_table(columns, rows, right)
    if fits(console, table) or _fits_with_wrapped_prose(console, columns, rows):
        console.print(table)
        return
    for row in rows:
        _print_stacked(console, columns, row)


def _fits_with_wrapped_prose(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    widest_word = max(cell_len(word) for row in rows for word in [*row[-1].split(), " " * MIN_PROSE_WIDTH])
    others = _make_table(columns[:-1], rows, right=())
    return fits(console, others, margin=COLUMN_GAP + widest_word)


def _print_stacked(console: Console, columns: Sequence[str], row: Sequence[str]) -> None:
    first, *middle, last = row
    console.print(Text(first, style="bold"))
    if middle:
        pairs = zip(columns[1:], middle, strict=False)
        console.print(Text("  " + ", ".join(f"{name} {value}" for name, value in pairs), style="dim"))
    console.print(Text(f"  {columns[-1]}: ", style="dim") + Text(last))


def _make_table(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold cyan", expand=False)
    for number, name in enumerate(columns, 1):
        is_last = number == len(columns)
        table.add_column(name, justify="right" if name in right else "left", no_wrap=not is_last, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row[: len(columns)]))
    return table
