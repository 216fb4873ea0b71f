"""Stateful tests on a manual clock. `machine` has the rules of Hypothesis, `ledger` has the checks."""

import pytest

pytest.register_assert_rewrite("tests.stateful.ledger", "tests.stateful.machine", "tests.stateful.player")
