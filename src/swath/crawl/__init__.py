"""A polite web crawler on the frontier."""
