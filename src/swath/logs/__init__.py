"""Logs: the lines that a long-running command writes for its operator, from events and from Python's logging.

Imports the public API of swath and the standard library; the jobs and the command line import it.
"""
