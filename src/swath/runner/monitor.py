"""RunMonitor: what a run says about itself while it runs."""

from collections.abc import Callable

from swath.core.clock import lease_clock
from swath.runner.handler_errors import HandlerError, HandlerErrors
from swath.runner.run_state import RunFacts, RunState, list_states


class RunMonitor:
    """Shows what a run is doing: pass one to each run with `run(monitor=…)`, and read it at any time.

    `noun` and `handler` are words for its sentences: what an item is, and what the handler is.
    """

    def __init__(self, *, noun: str = "item", handler: str = "handler") -> None:
        self._noun = noun
        self._handler_errors = HandlerErrors(handler=handler)
        self._read_facts: Callable[[], RunFacts] = _read_nothing

    @property
    def states(self) -> tuple[RunState, ...]:
        """Why the run does nothing, or less than it could; empty while it works normally."""
        return list_states(self._read_facts(), noun=self._noun)

    @property
    def errors(self) -> tuple[HandlerError, ...]:
        """The errors of the handler by kind, the most frequent first. At most 51 kinds are kept."""
        return self._handler_errors.list()

    @property
    def in_flight(self) -> int:
        """The number of items that this run has claimed and not settled."""
        return self._read_facts().in_flight

    def record_error(self, key: str, reason: str, *, error: BaseException | str | None = None) -> None:
        """Count an error that the handler caught, like one that it raised. `error` is the exception or its traceback.

        Any thread may call this.
        """
        self._handler_errors.record(key, reason, error)

    # for the run

    def watch(self, read_facts: Callable[[], RunFacts]) -> None:
        """Read the facts of a run from now on."""
        self._read_facts = read_facts

    def finish(self) -> None:
        """Log what was counted, and show no more states: the run has ended."""
        self._read_facts = _read_nothing
        self._handler_errors.log_totals()


def _read_nothing() -> RunFacts:
    return RunFacts(lease_clock())
