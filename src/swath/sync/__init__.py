"""swath for code without an event loop: the same API, with plain functions.

    with swath.sync.open("sqlite:///work.db") as frontier:
        frontier.add(["a", "b", "c"])
        frontier.run(handler, workers=20)   # handler is a plain function, called in 20 threads

Every open frontier has a thread with an event loop, which does the work. Any thread may call the frontier. The observer
runs on the event loop's thread and must not call the frontier.
"""

from swath.sync.surface import Claim, Frontier, open

__all__ = ["Claim", "Frontier", "open"]
