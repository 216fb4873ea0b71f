"""Output files that hold exactly what was settled."""
