"""Benchmarks of swath: `make bench`, or `python -m benchmarks`. docs/benchmarks.md explains the figures."""
