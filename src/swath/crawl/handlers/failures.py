"""Describe an exception of the user's code: in one line with its place, and as a traceback without swath's frames."""

import asyncio
import traceback
from pathlib import Path
from typing import Final

from swath import SwathError
from swath.crawl.handlers.errors import InvalidYield

MAX_REASON_CHARS: Final = 600
MAX_TRACE_CHARS: Final = 8_000  # of the end, which names the exception
SWATH_FOLDER: Final = str(Path(__file__).parents[2])


def describe_error(name: str, error: BaseException) -> tuple[str, str]:
    """Return the reason, such as `book: ValueError: no price (books.py:17)`, and the traceback."""
    place = find_place(error)
    text = format_message(error)
    said = text.partition(": ")[2] if ": " in text else ""
    said = f": {said}"[:MAX_REASON_CHARS] if said else ""
    reason = make_storable(f"{name}: {type(error).__name__}{said}" + (f" ({place})" if place else ""))
    return reason, make_storable(format_trace(error)[-MAX_TRACE_CHARS:])


def find_place(error: BaseException) -> str | None:
    """Return the file and line of the innermost frame that is not swath's, or of the `yield` of a wrong value."""
    if isinstance(error, InvalidYield) and error.yielded_at is not None:
        return f"{Path(error.yielded_at[0]).name}:{error.yielded_at[1]}"
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    users = [(file, line) for file, line in frames if not file.startswith(SWATH_FOLDER)]
    return f"{Path(users[-1][0]).name}:{users[-1][1]}" if users else None


def make_storable(text: str) -> str:
    """Replace lone surrogates, which neither a store nor the page list can hold."""
    return text.encode(errors="backslashreplace").decode()


def format_message(error: BaseException) -> str:
    """Return the class and the message of an exception as one line."""
    try:
        return " ".join(traceback.format_exception_only(error)[-1].split())
    except BaseException as broken:  # noqa: BLE001  formatting calls methods of the user's exception class
        return f"{type(error).__name__}: (its message cannot be shown: {type(broken).__name__})"


def format_trace(error: BaseException) -> str:
    """Return the traceback without the frames above the user's code, which are swath's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(SWATH_FOLDER):
        trace = trace.tb_next
    try:
        if trace is None and isinstance(error, SwathError):  # swath complains about what the code returned or yielded
            place = error.yielded_at if isinstance(error, InvalidYield) else None
            frames = [] if place is None else traceback.format_list([traceback.FrameSummary(*place)])
            return "".join([*frames, *traceback.format_exception_only(error)])
        return "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))
    except BaseException as broken:  # noqa: BLE001  as above
        return f"(its traceback cannot be shown: {type(broken).__name__})"


def is_for_the_run(error: BaseException) -> bool:
    """Return whether an exception in the event loop is Ctrl-C or a cancellation, and not raised by the user's code.

    The user's code can raise CancelledError without being cancelled, for example if it awaits a task that was.
    """
    match error:
        case KeyboardInterrupt():
            return True
        case asyncio.CancelledError():
            task = asyncio.current_task()
            return task is not None and task.cancelling() > 0
        case GeneratorExit():
            return asyncio._get_running_loop() is None  # the loop is gone, and the coroutine is closed
    return False
