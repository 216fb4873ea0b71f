"""Handlers: what they see of a page, what they yield, and how a crawl runs them."""
