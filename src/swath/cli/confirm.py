"""Ask the user before something is lost."""

import signal
import sys

from swath import UsageError
from swath.cli.terminal import is_terminal


def confirm(question: str, *, advice: str) -> None:
    """Return if the user answers yes; otherwise raise UsageError. Without a terminal, the error has the advice."""
    if not is_terminal(sys.stdin) or not is_terminal(sys.stderr):
        raise UsageError(f"nothing was discarded: there is no terminal to ask on, so {advice}")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # the event loop does not run during the question
    try:
        answer = sys.stdin.readline()
    finally:
        signal.signal(signal.SIGINT, before)
    if answer.strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was discarded")
