"""The entries of a log that are not events of a frontier, and the level of each event.

docs/reference/logs.md is generated from the docstrings here, those of the events, and LEVELS.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from swath import Event, events

_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Started(Event):
    """A command began. `settings` has those that are not the default, without passwords."""

    command: str
    version: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Resumed(Event):
    """The frontier is open. `resumed` says whether it has work of earlier runs, and `about` has counts of it."""

    resumed: bool
    about: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finished(Event):
    """A command ended. `summary` has its counts."""

    stopped_by: str
    seconds: float
    summary: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """A command ended with an error."""

    error: str


@dataclass(frozen=True, slots=True)
class ProcessFailed(Event):
    """A child process of the command ended with an error. The others continue."""

    error: str


@dataclass(frozen=True, slots=True)
class Throttled(Event):
    """A backfill paused, slowed down or speeds up again because of the load of the database."""

    message: str


@dataclass(frozen=True, slots=True)
class Message(Event):
    """Something that has no entry of its own, such as the first handler error of a kind, with its traceback. The line
    has the level of the message. `logger` is the name of the Python logger."""

    logger: str
    message: str
    error: str | None


@dataclass(frozen=True, slots=True)
class LinesMissing(Event):
    """The log could not be written for a while, and `lines` of this process are missing."""

    lines: int


# An event without a level here is logged at DEBUG: it happens for every item, claim or settlement.
LEVELS: Final[Mapping[type[Event], int]] = {
    Started: logging.INFO,
    Resumed: logging.INFO,
    Finished: logging.INFO,
    Failed: logging.ERROR,
    ProcessFailed: logging.ERROR,
    Throttled: logging.INFO,
    LinesMissing: logging.WARNING,
    events.Recovered: logging.WARNING,
    events.Died: logging.INFO,
    events.Repaired: logging.INFO,
    events.Lost: logging.WARNING,
    events.LaneChanged: logging.INFO,
    events.SettingsChanged: logging.INFO,
    events.Reopened: logging.INFO,
    events.Dropped: logging.INFO,
    events.ClockStepped: logging.WARNING,
    events.Waiting: logging.WARNING,
    events.Reached: logging.INFO,
    events.StateBegan: logging.INFO,
    events.StateEnded: logging.INFO,
    events.Stopping: logging.INFO,
}


def get_level(event: type[Event]) -> int:
    return LEVELS.get(event, logging.DEBUG)


def get_name(event: type[Event]) -> str:
    """Return the name of an entry: that of its class, with underscores."""
    return _WORD_START.sub("_", event.__name__).lower()
