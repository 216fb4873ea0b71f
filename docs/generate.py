"""Generate the reference from help texts and docstrings: `python -m docs.generate`. A test finds drift."""

import inspect
import logging
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

from swath.backends.registry import BUILT_IN
from swath.cli.app import load_commands
from swath.cli.exit_codes import MEANINGS, get_exit_code
from swath.core import errors, events, validation
from swath.core.errors import SwathError
from swath.core.store import Settings
from swath.crawl import events as crawl_events
from swath.logs import entries, lines

REFERENCE = Path(__file__).parent / "reference"
NOTICE = "<!-- Written by `python -m docs.generate`. Change the code instead. -->"

CLI_INTRODUCTION = """\
The extra `cli` installs the command `swath`; `python -m swath` is the same.

Name the store with `--store STORE` after the command, or in the environment variable `SWATH_STORE`. Commands without
other arguments also take it as an argument, as in `swath status crawl/`. STORE is one of

- the directory of a crawl: `crawl/`
- the file of a SQLite database: `work.db`
- the output of a scan: `findings.jsonl`
- a URL: `sqlite:///work.db`, `postgresql://user@host/app`, either with `?schema=name`

If a URL or file names no schema, the frontier is the default one, or else the only one in that database. `swath status`
lists the frontiers of a database that holds several. Without any name, commands use the only frontier in the current
directory, and say so. Only `swath add` and `swath db init` with a URL, `swath crawl`, `swath backfill` and `swath scan`
create a store; the other commands fail if there is none. swath never prints the password in a store URL.

Durations are seconds, or have a unit: `1.5`, `250ms`, `70s`, `10m`, `2h`, `1d`. Times are ISO 8601 with a time zone:
`2030-01-31T12:00:00Z`.

## Output

On a terminal, swath prints tables and panels. Elsewhere, the output is plain and stable: `name<tab>value` lines, or
tab-separated columns without a header for lists. Characters that do not print are escaped, in every format. If a
terminal is too narrow for a table or a box, the values are printed without it, so that they can be copied in one piece.

Elsewhere than on a terminal, progress lines and warnings begin with the time, in ISO 8601 and UTC.

With `--json`, a command prints one JSON document. `swath lanes list`, `swath dead list`, `swath status --watch`,
`swath crawl`, `swath backfill` and `swath scan` print JSON Lines instead: one object per line. Lines of
the last three have an `event` and a `time`. Times are ISO 8601 in UTC, durations are seconds, and values that do not
apply are `null`.

Results go to standard output; errors, progress and remarks go to standard error. `swath crawl`, `swath backfill` and
`swath scan` write their results elsewhere, so they print progress and summary to standard output. An error is one line
that starts with `swath:`. If an option is unknown or has an invalid value, the usage of the command comes first.
"""


def cli_reference() -> str:
    """Return the page on the command line."""
    lines = ["# Command line", "", NOTICE, "", CLI_INTRODUCTION, "## Exit codes", "", "| code | meaning |", "|---|---|"]
    lines += [f"| {code:d} | {meaning} |" for code, meaning in MEANINGS.items()]
    lines += ["", "If swath prints a traceback, that is a bug. The exit code is then 1 as well.", ""]
    for path, command in list_commands():
        lines += _describe_command(path, command)
    return "\n".join(lines).rstrip() + "\n"


def list_commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with the words that call it."""
    return _walk_commands(typer.main.get_command(load_commands()), ("swath",))


def _walk_commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if len(path) > 1:
        yield path, command
    if hasattr(command, "commands"):
        for name in command.list_commands(None):
            yield from _walk_commands(command.commands[name], (*path, name))


def _describe_command(path: tuple[str, ...], command: Any) -> list[str]:
    group = hasattr(command, "commands")
    params = [param for param in command.params if param.name != "help"]
    usage = " ".join(path) + (" COMMAND" if group else "".join(f" {piece}" for piece in _list_usage(params)))
    lines = [f"{'##' if len(path) == 2 else '###'} {' '.join(path)}", "", "```", usage, "```", ""]
    lines += [re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.help)), ""]
    lines += ["```console", *(f"$ {example}" for example in command.examples), "```", ""]
    if params:
        lines += [
            "| option | meaning |",
            "|---|---|",
            *(f"| {_format_name(param)} | {_format_help(param)} |" for param in params),
            "",
        ]
    return lines


def _list_usage(params: list[Any]) -> Iterator[str]:
    for param in params:
        if param.param_type_name == "argument":
            optional = not param.required and not param.metavar.startswith("[")
            yield f"[{param.metavar}]" if optional else param.metavar
    yield "[OPTIONS]"


def _get_name(param: Any) -> str:
    """Return the name of an argument without the brackets that mark it as optional."""
    name = str(param.metavar)
    return name[1:-1] if name.startswith("[") and name.find("]") == len(name) - 1 else name


def _format_name(param: Any) -> str:
    if param.param_type_name == "argument":
        return f"`{_escape_cell(_get_name(param))}`"
    value = "" if param.is_flag else f" {_escape_cell(param.metavar)}"
    return ", ".join(f"`{name}{value}`" for name in (*param.opts, *param.secondary_opts))


def _format_help(param: Any) -> str:
    text = _escape_cell(param.help)
    if param.envvar:
        text += f" (`{param.envvar}`)"
    default = param.show_default if isinstance(param.show_default, str) else param.default
    if param.secondary_opts:
        text += f" (default: `{(param.opts if default else param.secondary_opts)[0]}`)"
    elif default not in (None, False) and param.show_default:
        text += f" (default: {default})"
    return text


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|")


def error_reference() -> str:
    """Return the page on exceptions."""
    tree = inspect.cleandoc(errors.__doc__ or "").partition("\n\n")
    lines = ["# Errors", "", NOTICE, "", tree[0], "", "```", tree[2], "```", ""]
    lines += ["The message of an error says what happened, with values, and then what to do.", ""]
    lines += ["| error | is a | meaning | exit code of `swath` |", "|---|---|---|---|"]
    for error in _list_errors():
        parents = ", ".join(f"`{parent.__name__}`" for parent in error.__bases__)
        code = f"{get_exit_code(error('')):d}" if error is not SwathError else ""
        meaning = " ".join((inspect.getdoc(error) or "").split())  # a table row is one line
        lines.append(f"| `swath.{error.__name__}` | {parents} | {meaning} | {code} |")
    return "\n".join(lines) + "\n"


def _list_errors() -> Iterator[type[SwathError]]:
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, SwathError):
            yield value


SETTINGS_INTRODUCTION = """\
The settings of a frontier are in its store and apply to every process that works on it. Pass them to `swath.open` or
`swath db init`. To change them later, pass them again, or use `frontier.configure` or `swath lanes defaults`.
"""

SETTINGS = {
    "partitions": (
        f"1 to {validation.MAX_PARTITIONS:,}",
        "Number of parts that processes can claim from without waiting for each other. It cannot be changed later.",
    ),
    "min_interval": (
        f"0 to {validation.MAX_SECONDS:,} s",
        "Seconds between two items of a lane: after the settlement if the concurrency is 1, otherwise after the start.",
    ),
    "concurrency": (
        f"1 to {validation.MAX_CONCURRENCY:,}, or None",
        "Maximum items of a lane in flight; None for no limit.",
    ),
    "max_attempts": (
        f"1 to {validation.MAX_ATTEMPTS:,}",
        "Maximum failed attempts before an item is dead. Lost workers are counted separately, with the same maximum.",
    ),
}

SETTINGS_ELSEWHERE = """\
## Settings of a lane

`frontier.limit(lane, min_interval=…, concurrency=…)` or `swath lanes set` overrides the settings for one lane. The
value `"default"` removes the override.

## Settings in a store URL

| parameter | meaning |
|---|---|
| `?schema=name` | Name of the frontier, if the database holds several frontiers or other tables (default: `swath`) |
| `?synchronous=normal` | SQLite: commit faster; a power failure may lose the last commits (default: `full`) |

swath passes all other parameters of a PostgreSQL URL to libpq, such as `sslmode=require`.

The options of a run are arguments of `frontier.run`. The options of the jobs are on the page about the
[command line](cli.md).
"""


def settings_reference() -> str:
    """Return the page on the settings of a frontier."""
    lines = ["# Settings", "", NOTICE, "", SETTINGS_INTRODUCTION]
    lines += ["| setting | default | values | meaning |", "|---|---|---|---|"]
    for name in Settings._fields:
        default = Settings._field_defaults.get(
            name, f"{BUILT_IN['sqlite'].default_partitions}; PostgreSQL: {BUILT_IN['postgresql'].default_partitions}"
        )
        values, meaning = SETTINGS[name]
        default = "None" if name == "concurrency" else default  # a store keeps 0 for no limit
        lines.append(f"| `{name}` | {default} | {values} | {meaning} |")
    return "\n".join([*lines, "", SETTINGS_ELSEWHERE])


EVENTS_INTRODUCTION = """\
`swath.open(url, observer=…)` takes a function. swath calls it with each of these events, in order, on the event loop's
thread. The function must return quickly; swath logs exceptions that it raises. `seconds` is the time that the store
took, unless the event says otherwise.
"""


def event_reference() -> str:
    """Return the page on events."""
    lines = ["# Events", "", NOTICE, "", EVENTS_INTRODUCTION, "| event | meaning | fields |", "|---|---|---|"]
    for event in _list_events(events):
        names = ", ".join(f"`{field.name}`" for field in fields(event))
        lines.append(f"| `swath.events.{event.__name__}` | {' '.join((event.__doc__ or '').split())} | {names} |")
    return "\n".join(lines) + "\n"


def _list_events(module: ModuleType) -> Iterator[type[events.Event]]:
    """Yield the events that a module defines."""
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, events.Event) and value is not events.Event:
            yield value


LOGS_INTRODUCTION = f"""\
`swath crawl`, `swath backfill`, `swath scan` and `swath extract` write a log with `--log-file FILE`; see
[logs](../howto/logs.md). Each line is one entry of at most {lines.MAX_LINE_BYTES:,} bytes.

Every line has these fields. In the format `text`, the first three have no name, and fields without a value are omitted.

| field | meaning |
|---|---|
| `time` | When it happened, by the clock of this machine: ISO 8601 in UTC |
| `level` | `debug`, `info`, `warning` or `error` |
| `event` | Name of the entry, from the table below |
| `process` | Process id |
| `worker` | Name under which the process claims items; none before the frontier is open |

A value that is too long ends in `…`; a traceback begins with it. Passwords in URLs and connection strings,
Authorization headers and the passwords of the command's own URLs are `***`. Characters that do not print are escaped as
in JSON.

## Entries

Most entries are [events](events.md) of the frontier or of its run.

| event | level | meaning | fields |
|---|---|---|---|
"""


def log_reference() -> str:
    """Return the page on logs."""
    found = [*_list_events(entries), *_list_events(events), *_list_events(crawl_events)]
    rows = []
    for event in sorted(found, key=lambda one: (-entries.get_level(one), found.index(one))):
        names = ", ".join(f"`{field.name}`" for field in fields(event))
        level = "any" if event is entries.Message else logging.getLevelName(entries.get_level(event)).lower()
        meaning = " ".join((event.__doc__ or "").split())
        rows.append(f"| `{entries.get_name(event)}` | {level} | {meaning} | {names} |")
    return f"# Logs\n\n{NOTICE}\n\n{LOGS_INTRODUCTION}" + "\n".join(rows) + "\n"


PAGES = {
    "cli.md": cli_reference,
    "errors.md": error_reference,
    "events.md": event_reference,
    "logs.md": log_reference,
    "settings.md": settings_reference,
}


def main() -> int:
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
