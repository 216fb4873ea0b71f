"""Ask the user before something is lost."""

import signal
import sys

from swath import UsageError
from swath.cli.terminal import is_terminal, print_question


def confirm(question: str, *, refusal: str, advice: str) -> bool:
    """Return whether the user answers yes.

    Without a terminal, raise UsageError with `refusal`, which says what was not done, and the advice.
    """
    if not is_terminal(sys.stdin) or not is_terminal(sys.stderr):
        raise UsageError(f"{refusal}: there is no terminal to ask on, so {advice}")
    # The event loop does not run during the question. Ctrl-C may come as soon as the question is on the screen.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        print_question(question)
        answer = sys.stdin.readline()
    finally:
        signal.signal(signal.SIGINT, before)
    return answer.strip().lower() in ("y", "yes")
