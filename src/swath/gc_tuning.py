"""Run the garbage collector less often while a job runs."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (50_000, 20, 50)  # see gc.set_threshold


@contextmanager
def collect_garbage_rarely() -> Iterator[None]:
    """Raise the thresholds of the garbage collector, and exclude the objects that exist already.

    A page or a slice creates some thousand objects that reference counting frees. With Python's own thresholds, the
    collector spends most of its time on objects that have existed since the start.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
