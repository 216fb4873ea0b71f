"""URLs: normalise them, decide whether they are in scope, recognise traps."""
