"""The frontier itself. Imports the standard library only."""
