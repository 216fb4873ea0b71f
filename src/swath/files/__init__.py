"""Output files that hold exactly what was settled, shared by the crawler and the scanner.

Modules here import the public API of swath and each other.
"""
