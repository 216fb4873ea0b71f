"""Metrics: what a process has counted from the events of a frontier and its run, in bounded memory.

Imports the public API of swath and the standard library. The names below are public.
"""

from swath.metrics.event_counts import Counts, EventCounts, add_counts, join_observers
from swath.metrics.histogram import BOUNDS, HistogramCounts

__all__ = ["BOUNDS", "Counts", "EventCounts", "HistogramCounts", "add_counts", "join_observers"]
