"""swath for code without an event loop: the same names, called plainly.

    with swath.sync.open("sqlite:///work.db") as frontier:
        frontier.add(["a", "b", "c"])
        frontier.run(handler, workers=20)   # handler is a plain function, called in 20 threads

Every open frontier has one thread with an event loop, on which everything happens; any thread may call it. An observer
is called on that thread, and must not call the frontier back.
"""

from swath.sync.surface import Claim, Frontier, open

__all__ = ["Claim", "Frontier", "open"]
