"""Writes the parts of the reference that the code already says: `python -m docs.generate`. A test finds drift."""

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer

from swath.backends.registry import BUILT_IN
from swath.cli.app import load_commands
from swath.cli.exit_codes import MEANINGS, get_exit_code
from swath.core import errors, events, validation
from swath.core.errors import SwathError
from swath.core.store import Settings

REFERENCE = Path(__file__).parent / "reference"
NOTICE = "<!-- Written by `python -m docs.generate`. Change the code instead. -->"

CLI_INTRODUCTION = """\
`pip install 'swath[cli]'` brings the command `swath`; `python -m swath` is the same.

The store is `--store URL` after the command, or `SWATH_STORE` in the environment. Only `swath add`, `swath db init`,
`swath crawl`, `swath backfill` and `swath scan` create one; everything else says when there is none. Passwords in a
store URL are never printed.

Lengths of time are seconds, or have a unit: `1.5`, `250ms`, `70s`, `10m`, `2h`, `1d`. Moments are ISO 8601 with a time
zone: `2030-01-31T12:00:00Z`.

## Output

On a terminal, output is laid out for people. Elsewhere it is plain and stable: `name<tab>value` lines, or tab-separated
columns without a header for listings. Characters that do not print are shown as escapes.

`--json` prints one JSON document; `swath lanes list`, `swath dead list`, `swath status --watch`, and a crawl, backfill
or scan print JSON Lines, one object a line. Times are ISO 8601 in UTC, intervals are seconds, and what does not apply
is `null`.

Results go to standard output; errors, progress and remarks to standard error. `swath crawl`, `swath backfill` and
`swath scan`, whose results are elsewhere, show their progress and summary on standard output. Errors of swath are one
line that starts with `swath:`; a flag that is unknown or has a wrong value is told of below the usage of its command.
"""


def cli() -> str:
    """The command line, from its definitions."""
    lines = ["# Command line", "", NOTICE, "", CLI_INTRODUCTION, "## Exit codes", "", "| code | meaning |", "|---|---|"]
    lines += [f"| {code:d} | {meaning} |" for code, meaning in MEANINGS.items()]
    lines += ["", "A traceback is a bug in swath; its exit code is 1, too.", ""]
    for path, command in commands():
        lines += _command(path, command)
    return "\n".join(lines).rstrip() + "\n"


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command, with the words that it is called by."""
    return _commands(typer.main.get_command(load_commands()), ("swath",))


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if len(path) > 1:
        yield path, command
    if hasattr(command, "commands"):
        for name in command.list_commands(None):
            yield from _commands(command.commands[name], (*path, name))


def _command(path: tuple[str, ...], command: Any) -> list[str]:
    group = hasattr(command, "commands")
    params = [param for param in command.params if param.name != "help"]
    usage = " ".join(path) + (" COMMAND" if group else "".join(f" {piece}" for piece in _usage(params)))
    lines = [f"{'##' if len(path) == 2 else '###'} {' '.join(path)}", "", "```", usage, "```", ""]
    lines += [re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.help)), ""]
    if params:
        lines += ["| | |", "|---|---|", *(f"| {_name(param)} | {_help(param)} |" for param in params), ""]
    return lines


def _usage(params: list[Any]) -> Iterator[str]:
    for param in params:
        if param.param_type_name == "argument":
            yield param.metavar if param.required else f"[{_bare(param)}]"
    yield "[OPTIONS]"


def _bare(param: Any) -> str:
    """What an argument is called, without the brackets that one which may be repeated has of its own."""
    return str(param.metavar.strip("[]"))


def _name(param: Any) -> str:
    if param.param_type_name == "argument":
        return f"`{_bare(param)}`"
    value = "" if param.is_flag else " " + param.metavar.replace("|", "\\|")
    return ", ".join(f"`{name}{value}`" for name in (*param.opts, *param.secondary_opts))


def _help(param: Any) -> str:
    text: str = param.help.replace("|", "\\|")
    if param.envvar:
        text += f" (`{param.envvar}`)"
    default = param.show_default if isinstance(param.show_default, str) else param.default
    if param.secondary_opts:
        text += f" (default: `{(param.opts if default else param.secondary_opts)[0]}`)"
    elif default not in (None, False) and param.show_default:
        text += f" (default: {default})"
    return text


def error_reference() -> str:
    """Every exception, from its docstring."""
    tree = inspect.cleandoc(errors.__doc__ or "").partition("\n\n")
    lines = ["# Errors", "", NOTICE, "", tree[0], "", "```", tree[2], "```", ""]
    lines += ["A message says what happened, with values, and then what to do.", ""]
    lines += ["| error | is a | meaning | exit code of `swath` |", "|---|---|---|---|"]
    for error in _errors():
        parents = ", ".join(f"`{parent.__name__}`" for parent in error.__bases__)
        code = f"{get_exit_code(error('')):d}" if error is not SwathError else ""
        meaning = " ".join((inspect.getdoc(error) or "").split())  # a line of the table, however many the docstring has
        lines.append(f"| `swath.{error.__name__}` | {parents} | {meaning} | {code} |")
    return "\n".join(lines) + "\n"


def _errors() -> Iterator[type[SwathError]]:
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, SwathError):
            yield value


SETTINGS_INTRODUCTION = """\
A frontier's settings are kept in its store and hold for every process that works on it. They are given to `swath.open`
or `swath db init`, and changed by giving them again, by `frontier.configure` or by `swath lanes defaults`.
"""

SETTINGS = {
    "partitions": (
        f"1 to {validation.MAX_PARTITIONS:,}",
        "How many parts of it can be worked on at once without waiting for each other; fixed when it is created.",
    ),
    "min_interval": (
        f"0 to {validation.MAX_SECONDS:,} s",
        "Seconds between items of a lane: after the last settlement where the concurrency is 1, else after the start.",
    ),
    "concurrency": (
        f"1 to {validation.MAX_CONCURRENCY:,}, or None",
        "Items of a lane in flight at once; None for no limit.",
    ),
    "max_attempts": (
        f"1 to {validation.MAX_ATTEMPTS:,}",
        "After how many failed attempts an item is dead; lost workers are counted apart, up to as many.",
    ),
}

SETTINGS_ELSEWHERE = """\
## Of a lane

`frontier.limit(lane, min_interval=…, concurrency=…)` or `swath lanes set` gives a lane values of its own; `"default"`
goes back to the frontier's.

## In a store's URL

| | |
|---|---|
| `?schema=name` | which frontier is meant, where a database holds several or is yours already (default: `swath`) |
| `?synchronous=normal` | SQLite: faster, and a power cut may cost the last moments (default: `full`) |

Everything else in the URL of a PostgreSQL database is for libpq, such as `sslmode=require`.

The options of a run are arguments of `frontier.run`, and those of the jobs are [on the command line](cli.md).
"""


def settings_reference() -> str:
    """The settings of a frontier, with the values that the code takes."""
    lines = ["# Settings", "", NOTICE, "", SETTINGS_INTRODUCTION]
    lines += ["| setting | default | values | meaning |", "|---|---|---|---|"]
    for name in Settings._fields:
        default = Settings._field_defaults.get(
            name, f"{BUILT_IN['sqlite'].default_partitions}; PostgreSQL: {BUILT_IN['postgresql'].default_partitions}"
        )
        values, meaning = SETTINGS[name]
        default = "None" if name == "concurrency" else default  # stores keep 0
        lines.append(f"| `{name}` | {default} | {values} | {meaning} |")
    return "\n".join([*lines, "", SETTINGS_ELSEWHERE])


EVENTS_INTRODUCTION = """\
`swath.open(url, observer=…)` takes a function. swath calls it with each of these events, in order, on the event loop's
thread. The function must return quickly; swath logs exceptions that it raises. `seconds` is the time that the store
took, unless the event says otherwise.
"""


def event_reference() -> str:
    """Every event, from its docstring and its fields."""
    lines = ["# Events", "", NOTICE, "", EVENTS_INTRODUCTION, "| event | meaning | fields |", "|---|---|---|"]
    for event in _events():
        names = ", ".join(f"`{field.name}`" for field in fields(event))
        lines.append(f"| `swath.events.{event.__name__}` | {' '.join((event.__doc__ or '').split())} | {names} |")
    return "\n".join(lines) + "\n"


def _events() -> Iterator[type[events.Event]]:
    for value in vars(events).values():
        if isinstance(value, type) and issubclass(value, events.Event) and value is not events.Event:
            yield value


PAGES = {
    "cli.md": cli,
    "errors.md": error_reference,
    "events.md": event_reference,
    "settings.md": settings_reference,
}


def main() -> int:
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
