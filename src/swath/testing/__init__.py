"""Helpers for tests of code that uses swath: at present the demo web, in `swath.testing.web`.

Modules here import the standard library and each other, nothing else of swath.
"""
