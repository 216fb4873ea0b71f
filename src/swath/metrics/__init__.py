"""Metrics: what a process has counted from the events of a frontier and its run, in bounded memory.

Imports the public API of swath and the standard library.
"""
