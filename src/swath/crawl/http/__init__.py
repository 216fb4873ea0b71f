"""Fetch one URL over HTTP: addresses, connections, transfers, content codings."""
