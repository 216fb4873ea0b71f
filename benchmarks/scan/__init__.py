"""Scans beside plain loops over the same sources."""
