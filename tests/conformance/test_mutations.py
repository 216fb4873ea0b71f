"""The list of mutations stays true: each of its texts is in its file, once, and what it makes of it is Python."""

import pytest

from tests.mutations.promises import MUTATIONS, Mutation
from tests.mutations.tree import ROOT


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: f"{mutation.select}: {mutation.name}")
def test_mutation_can_be_applied(mutation: Mutation) -> None:
    text = (ROOT / mutation.file).read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1
    assert mutation.old != mutation.new
    if mutation.file.endswith(".py"):
        compile(text.replace(mutation.old, mutation.new), mutation.file, "exec")
