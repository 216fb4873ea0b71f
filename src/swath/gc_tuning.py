"""Less looking for garbage while a job runs."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = (50_000, 20, 50)  # objects and rounds between looks for cycles


@contextmanager
def rarely_collected() -> Iterator[None]:
    """A page or a slice is some thousand objects that go without being looked for. At Python's own pace of looking for
    cycles, most of the looking goes through what was there from the start."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
