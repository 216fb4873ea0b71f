"""The log of a long-running command, from its start to its end."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import swath
from swath.cli.terminal import is_terminal
from swath.logs.entries import Started
from swath.logs.run_log import RunLog, open_run_log
from swath.logs.settings import LogSettings, find_secrets, list_changed_settings


@contextmanager
def open_command_log(command: str, settings: Any, log: LogSettings) -> Iterator[RunLog]:
    """Open the log and write that the command began. `settings` is the dataclass of the job."""
    with open_run_log(log, secrets=find_secrets(settings)) as run_log:
        run_log.write(Started(command, swath.__version__, list_changed_settings(settings)))
        yield run_log


def drop_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a summary that say something."""
    return {name: value for name, value in values.items() if value not in (None, {}, [], ())}


def shows_panel(log: LogSettings, *, json: bool) -> bool:
    """Return whether progress is a live panel. A log on the same terminal would write through it."""
    return is_terminal() and not json and not (log.to_stderr and is_terminal(sys.stderr))
