"""Handlers: the user's own code for the pages of a crawl, and what it sees of them and yields.

Start with `crawler`. The modules import the public API of swath, and `http`, `parse` and `urls` of the crawler.
"""
