"""Fetch one URL over HTTP: address checks, name resolution, transfers with libcurl, content codings.

Modules here import the public API of swath and each other; `redirects` also imports `urls`.
"""
