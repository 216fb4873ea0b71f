"""How long a change of every row takes, beside one UPDATE and a hand-written loop."""
