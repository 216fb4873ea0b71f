"""The runner: `run()` calls a handler for the items of a frontier, in one process.

Its modules import `swath.core` and each other, and nothing else of the package.
"""
