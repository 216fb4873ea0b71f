"""The model: items, lanes, checkpoints, events, errors, encoding and the Store protocol.

It imports only the standard library.
"""
