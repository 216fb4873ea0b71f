"""URLs: normalise them, decide whether they are in scope, detect traps.

Modules here are pure functions and import the public API of swath and each other; `explain` also reads the settings and
seeds of a crawl.
"""
