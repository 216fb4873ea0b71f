"""CPU time of a crawl by part: samples of the main thread, and the kernel's counters for the other threads.

A signal samples the main thread's stack every 2 ms of CPU time. The innermost frame of swath decides which part the
sample counts for, including the C code that the frame called. Every other thread belongs to one part.
"""

import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

EVERY = 0.002  # seconds of processor time of the process
LOOK_SECONDS = 0.1
TICKS = os.sysconf("SC_CLK_TCK")

FRONTIER = "frontier"
FETCHING = "fetching (libcurl)"
READING = "reading HTML"
LINKS = "links"
ARCHIVE = "archive"
VISIT = "visits and robots.txt"
LOOP = "event loop"
REST = "start and rest"
PARTS = (FRONTIER, FETCHING, READING, LINKS, ARCHIVE, VISIT, LOOP, REST)
_FRONTIER_MODULES = ("swath.core", "swath.runner", "swath.backends", "swath.frontier", "swath.claim", "psycopg")
# By the first part of a module's name after `swath.crawl`. All others are handlers of pages.
_BY_MODULE = {
    "http": FETCHING,
    "parse": READING,
    "urls": LINKS,
    "links": LINKS,
    "archive": ARCHIVE,
    **dict.fromkeys(("job", "fleet", "workspace", "seeds", "settings"), REST),
}


class Profile:
    """Samples from `start` to `end`; the main thread must be the one that starts it."""

    def __init__(self) -> None:
        self._samples: Counter[str] = Counter()
        self._threads: dict[int, tuple[str, float]] = {}  # by the kernel's id: the part, and seconds so far
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True, name="profile")
        self._main = threading.get_native_id()

    def start(self) -> None:
        self._began = time.process_time()
        self._main_began = _cpu(self._main)
        self._watch.start()
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY)

    def end(self) -> dict[str, float]:
        """Seconds of processor time by part."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        self._over.set()
        self._watch.join()
        total = time.process_time() - self._began
        main = _cpu(self._main) - self._main_began
        count = sum(self._samples.values()) or 1
        parts = {part: main * self._samples[part] / count for part in PARTS}
        for part, seconds in self._threads.values():
            parts[part] += seconds
        parts[REST] += max(0.0, total - sum(parts.values()))  # threads that ended between two looks
        return parts

    def _sample(self, number: int, frame: FrameType | None) -> None:
        self._samples[_part_of(frame)] += 1

    def _look(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            for thread in threading.enumerate():
                if thread.native_id is not None and thread.native_id != self._main and thread is not self._watch:
                    part = FRONTIER if thread.name.startswith("swath ") else ARCHIVE
                    self._threads[thread.native_id] = part, _cpu(thread.native_id)


def _part_of(frame: FrameType | None) -> str:
    innermost = frame
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith(
            ("swath.core", "swath.runner", "swath.backends", "swath.frontier", "swath.claim", "psycopg")
        ):
            return FRONTIER
        if name.startswith("swath.files."):
            return ARCHIVE
        if name.startswith("swath.crawl."):
            return _BY_MODULE.get(name.split(".")[2], VISIT)
        frame = frame.f_back
    inside = innermost is not None and innermost.f_globals.get("__name__") == "asyncio.runners"
    return LOOP if inside else REST


def _cpu(thread: int) -> float:
    try:
        text = Path(f"/proc/self/task/{thread}/stat").read_text()
    except OSError:
        return 0.0
    return sum(map(int, text[text.rindex(")") + 2 :].split()[11:13])) / TICKS


if sys.platform != "linux":
    raise SystemExit("the profile reads /proc, which only Linux has")
