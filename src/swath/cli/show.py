"""How things look: tables on a terminal, plain and stable text elsewhere, JSON when asked.

Keys, reasons and errors may hold anything, so everything printed goes through `clean`: nothing that a crawled page
said can move a terminal's cursor.
"""

import json
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TextIO

from rich import box
from rich.console import Console, RenderableType
from rich.constrain import Constrain
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from swath.core.redact import MASK, find_passwords

MARGIN = 4  # columns left free, so that a ^C that the terminal echoes does not begin a line and break a live display
PAGE = 1_000  # rows of a table that are laid out together; more become another table
SHORT_SECRET = 4  # characters; shorter ones are masked only where they stand in a URL

Pairs = Iterable[tuple[str, str]]


def console(*, stderr: bool = False) -> Console:
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def on_terminal(stream: TextIO | None = None) -> bool:
    return (stream or sys.stdout).isatty()


def clean(text: str, *, keep: str = "") -> str:
    """The text with everything that does not print written as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def complain(message: str) -> None:
    """One line on standard error."""
    print(f"swath: {clean(message)}", file=sys.stderr, flush=True)


def note(message: str, *, always: bool = False) -> None:
    """A remark beside the output, for people: on standard error, and only when the output is on a terminal, unless it
    would be taken for something else without it."""
    if always or on_terminal():
        console(stderr=True).print(Text(clean(message), style="dim"))


# secrets


def without_secrets(text: str, url: str) -> str:
    """Text in which the passwords of a store URL are masked, whether it quotes the URL or only part of it."""
    for secret in sorted(find_passwords(url), key=len, reverse=True):
        if len(secret) >= SHORT_SECRET:
            text = text.replace(secret, MASK)
        else:
            text = text.replace(f":{secret}@", f":{MASK}@").replace(f"password={secret}", f"password={MASK}")
    return text


# words


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def span(seconds: float) -> str:
    """A length of time, as short as it can be understood."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.3g} s" if seconds >= 0.001 else "0 s"


def size(count: int) -> str:
    """Bytes, in the unit that suits them."""
    amount, unit = count / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.1f} {unit}"


def stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def pace(min_interval: float, concurrency: int) -> str:
    """Limits in words."""
    every = f"one every {span(min_interval)}" if min_interval else "no interval"
    many = f"{concurrency:,} at once" if concurrency else "any number at once"
    return f"{every}, {many}"


# JSON


def document(data: Mapping[str, Any]) -> None:
    """One JSON document."""
    print(json.dumps(data, indent=2, ensure_ascii=_ascii_only()))


def json_line(data: Mapping[str, Any]) -> None:
    """One line of a JSON Lines listing."""
    print(json.dumps(data, ensure_ascii=_ascii_only()), flush=on_terminal())


async def json_lines(listed: AsyncIterator[Mapping[str, Any]]) -> int:
    """A JSON Lines listing. Returns how many."""
    count = 0
    async for data in listed:
        json_line(data)
        count += 1
    return count


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def decoded(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _ascii_only() -> bool:
    return sys.stdout.encoding.lower().replace("-", "") != "utf8"


# layouts


def facts(title: str, pairs: Pairs) -> None:
    """Names and values: a panel on a terminal, `name<tab>value` lines elsewhere."""
    if on_terminal():
        console().print(panel(title, pairs))
    else:
        for name, value in pairs:
            print(f"{name}\t{clean(value)}")


def panel(title: str, pairs: Pairs, *, footer: RenderableType | None = None) -> Panel:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(name, Text(clean(value, keep="\n")))
    body: RenderableType = grid
    if footer is not None:
        body = Table.grid()
        body.add_row(grid)
        body.add_row(footer)
    return Panel(body, title=Text(clean(title), style="bold"), title_align="left", border_style="dim", expand=False)


@contextmanager
def live(*, transient: bool) -> Iterator[Callable[[RenderableType], None]]:
    """A display that is drawn anew with each call; one that is transient is gone in the end."""
    from rich.live import Live  # which most commands do without

    on = console()
    with Live(console=on, auto_refresh=False, transient=transient) as display:
        yield lambda shown: display.update(Constrain(shown, max(20, on.width - MARGIN)), refresh=True)


async def listing(columns: Sequence[str], rows: AsyncIterator[Sequence[str]], *, right: Iterable[str] = ()) -> int:
    """Rows as they come, in bounded memory: tables on a terminal, tab-separated elsewhere. Returns how many."""
    count = 0
    table = _table(columns, right)
    async for row in rows:
        count += 1
        if not on_terminal():
            print("\t".join(clean(cell) for cell in row))
            continue
        table.add_row(*(Text(clean(cell, keep="\n")) for cell in row))
        if table.row_count == PAGE:
            console().print(table)
            table = _table(columns, right)
    if on_terminal() and table.row_count:
        console().print(table)
    return count


def _table(columns: Sequence[str], right: Iterable[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold cyan", expand=False)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return table
