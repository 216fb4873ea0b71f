"""The sink of a crawler: the user's function that writes items to a table in the transaction of their pages."""

import inspect
import traceback
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from swath import UsageError
from swath.crawl.archive.record import ItemLine
from swath.crawl.handlers.errors import SinkFailed
from swath.crawl.handlers.failures import format_message, is_for_the_run
from swath.crawl.handlers.items import ItemRecord, parse_record

SinkFunction = Callable[[Any, Sequence[ItemRecord]], Awaitable[None] | None]


def check_sink(function: object) -> None:
    """Raise UsageError if a value cannot be a sink."""
    if not callable(function) or isinstance(function, type):
        raise UsageError(f"sink={function!r:.100}: pass a function")
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        raise UsageError(
            f"sink={getattr(function, '__name__', function)}{inspect.signature(function)}: it takes a connection and a "
            "list of items"
        ) from None


class ItemSink:
    """Calls the user's function with items, and remembers the error that it raised last."""

    def __init__(self, function: SinkFunction) -> None:
        self._function = function
        self._error: Exception | None = None

    def get_writer(self) -> Callable[[Any, Sequence[ItemLine]], Any]:
        """Return the sink for the runner, which calls coroutine functions in the event loop and others in a thread."""
        return self._write_async if inspect.iscoroutinefunction(self._function) else self._write

    async def _write_async(self, connection: Any, lines: Sequence[ItemLine]) -> None:
        try:
            written = self._function(connection, [parse_record(line) for line in lines])
            if written is not None:
                await written
            status = connection.info.transaction_status.name
            if status == "IDLE" or (connection.closed and not connection.broken):
                raise SinkFailed(self._describe_end())
        except Exception as error:
            self._error = error
            raise
        except BaseException as error:
            if is_for_the_run(error):
                raise
            raise SinkFailed(self._describe(error)) from error

    def _write(self, connection: Any, lines: Sequence[ItemLine]) -> None:
        try:
            written = self._function(connection, [parse_record(line) for line in lines])
            if inspect.iscoroutine(written):
                written.close()
                raise UsageError("the sink returned something to await: define it with `async def`")
            if not connection.in_transaction:
                raise SinkFailed(self._describe_end())
        except Exception as error:
            self._error = error
            raise
        except BaseException as error:  # such as a SystemExit: no Ctrl-C reaches a thread
            raise SinkFailed(self._describe(error)) from error

    def translate(self, error: Exception) -> Exception:
        """Return the error for the user if it is the one that the function raised."""
        if error is not self._error or isinstance(error, SinkFailed):
            return error
        return SinkFailed(self._describe(error))

    def _describe_end(self) -> str:
        name = getattr(self._function, "__name__", "sink")
        return (
            f"the sink {name} has ended the transaction: it must not commit, roll back or close. Its pages were not "
            "settled, so a resume writes their items again"
        )

    def _describe(self, error: BaseException) -> str:
        name = getattr(self._function, "__name__", "sink")
        frames = traceback.extract_tb(error.__traceback__)
        place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        return (
            f"the sink {name} failed: {format_message(error)}{place}. The pages of these items were not settled: a "
            "resume fetches them again"
        )
