"""RunLog: the log of one process of a command."""

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from swath import Event, Observer, SwathError, events
from swath.logs.entries import Failed, LinesMissing, Message, get_level
from swath.logs.lines import Origin, format_entry
from swath.logs.log_file import LogFile
from swath.logs.settings import LogSettings

log = logging.getLogger("swath")

FORWARDED = "swath_forwarded"  # an attribute of records that another process has logged already
DEFAULT_LEVEL = "info"


class RunLog:
    """Writes events, entries, and what swath logs with Python's logging, as lines of one file.

    Without a file it writes nothing, and `observer` is None, so that nothing is passed to it.
    """

    def __init__(
        self, settings: LogSettings, *, secrets: Iterable[str] = (), clock: Callable[[], float] = time.time
    ) -> None:
        """Every line has `secrets` masked."""
        self.worker: str | None = None  # set when the frontier is open
        self.level: int = getattr(logging, (settings.level or DEFAULT_LEVEL).upper())
        self._as_json = settings.format == "json"
        self._secrets = frozenset(secrets)
        self._clock = clock
        self._file = None if not settings.is_wanted else self._open(settings)

    def _open(self, settings: LogSettings) -> LogFile:
        path = None if settings.to_stderr or settings.file is None else Path(settings.file).absolute()
        return LogFile(path, format_gap=self._format_gap, report=lambda message: log.warning("%s", message))

    @property
    def observer(self) -> Observer | None:
        """What to pass to `swath.open`: this log, or None if nothing is logged."""
        return None if self._file is None else self.write

    def write(self, event: Event, /, *, level: int | None = None) -> None:
        """Write an event or an entry, at its own level unless one is given."""
        level = get_level(type(event)) if level is None else level
        if self._file is not None and level >= self.level:
            self._file.write(self._format(event, level))

    def _format(self, event: Event, level: int) -> bytes:
        return format_entry(
            event,
            level=level,
            time=self._clock(),
            origin=Origin(os.getpid(), self.worker),
            as_json=self._as_json,
            secrets=self._secrets,
        )

    def _format_gap(self, lines: int) -> bytes:
        return self._format(LinesMissing(lines), get_level(LinesMissing))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


@contextmanager
def open_run_log(settings: LogSettings, *, secrets: Iterable[str] = (), warn: bool = True) -> Iterator[RunLog]:
    """Open the log that the settings ask for, and write to it until the block ends. Log an error that ends the block.

    With `warn`, warnings also go to standard error, as they do without a log.
    """
    run_log = RunLog(settings, secrets=secrets)
    if run_log.observer is None:
        yield run_log
        return
    with closing(run_log), _take_records(run_log, warn=warn and not settings.to_stderr):
        try:
            yield run_log
        except BaseException as error:
            text = str(error) if isinstance(error, SwathError) else f"{type(error).__name__}: {error}"
            run_log.write(Failed(text.rstrip(": ")))
            raise


@contextmanager
def _take_records(run_log: RunLog, *, warn: bool) -> Iterator[None]:
    """Write what swath's modules log with Python's logging."""
    handlers: list[logging.Handler] = [_RecordHandler(run_log)] + ([_LastResort()] if warn else [])
    before = log.level
    log.setLevel(min(run_log.level, log.getEffectiveLevel()))
    for handler in handlers:
        log.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            log.removeHandler(handler)
        log.setLevel(before)


class _RecordHandler(logging.Handler):
    """Writes log records, except those that an event or another process has written."""

    def __init__(self, run_log: RunLog) -> None:
        super().__init__(run_log.level)
        self._run_log = run_log

    def emit(self, record: logging.LogRecord) -> None:
        if any(hasattr(record, name) for name in (*events.AS_EVENT, FORWARDED)):
            return
        message, _, rest = _format_message(record).partition("\n")
        self._run_log.write(Message(record.name, message, rest or _format_traceback(record)), level=record.levelno)


class _LastResort(logging.Handler):
    """Prints warnings as Python does if no handler takes them. This handler would otherwise hide them."""

    def emit(self, record: logging.LogRecord) -> None:
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and not logging.root.handlers:
            last.handle(record)


def _format_message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001  the arguments of a record may be objects of the user's
        return f"{record.msg!r:.300} (its arguments cannot be shown: {type(error).__name__})"


def _format_traceback(record: logging.LogRecord) -> str | None:
    return None if not record.exc_info else logging.Formatter().formatException(record.exc_info)
