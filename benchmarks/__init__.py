"""Measures swath: `make bench`, or `python -m benchmarks`. docs/benchmarks.md says what, and how to read it."""
