"""The runner: `run()` covers a frontier with a handler in one process.

Its modules import `swath.core` and each other, and nothing else of the package.
"""
