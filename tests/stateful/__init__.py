"""Plays on a clock moved by hand: see `machine` for the rules, `ledger` for what is checked."""

import pytest

pytest.register_assert_rewrite("tests.stateful.ledger", "tests.stateful.machine", "tests.stateful.player")
