"""Describe an exception of the user's code: in one line with its place, and as a traceback without swath's frames."""

import traceback
from pathlib import Path
from typing import Final

from swath import SwathError
from swath.crawl.handlers.errors import InvalidYield

MAX_REASON_CHARS: Final = 600
MAX_TRACE_CHARS: Final = 8_000  # of the end, which names the exception
SWATH_FOLDER: Final = str(Path(__file__).parents[2])


def describe_error(name: str, error: Exception) -> tuple[str, str]:
    """Return the reason, such as `book: ValueError: no price (books.py:17)`, and the traceback."""
    place = find_place(error)
    text = " ".join(traceback.format_exception_only(error)[-1].split())
    said = text.partition(": ")[2] if ": " in text else ""
    said = f": {said}"[:MAX_REASON_CHARS] if said else ""
    reason = make_storable(f"{name}: {type(error).__name__}{said}" + (f" ({place})" if place else ""))
    return reason, make_storable(_format_trace(error)[-MAX_TRACE_CHARS:])


def find_place(error: Exception) -> str | None:
    """Return the file and line of the innermost frame that is not swath's, or of the `yield` of a wrong value."""
    if isinstance(error, InvalidYield) and error.yielded_at is not None:
        return f"{Path(error.yielded_at[0]).name}:{error.yielded_at[1]}"
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    users = [(file, line) for file, line in frames if not file.startswith(SWATH_FOLDER)]
    return f"{Path(users[-1][0]).name}:{users[-1][1]}" if users else None


def make_storable(text: str) -> str:
    """Replace lone surrogates, which neither a store nor the page list can hold."""
    return text.encode(errors="backslashreplace").decode()


def _format_trace(error: Exception) -> str:
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
    except Exception as broken:  # noqa: BLE001  formatting calls methods of the user's exception class
        return f"(its traceback cannot be shown: {type(broken).__name__})"
