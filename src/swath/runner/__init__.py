"""The runner: `run()` covers a frontier with a handler in one process.

It imports `swath.core` and nothing else of the package.
"""
