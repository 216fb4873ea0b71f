"""What tests of single modules share."""

from pathlib import Path

import pytest


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a frontier that is not there yet, in every kind of store."""
    match request.param:
        case "memory":
            return "memory:"
        case "sqlite":
            return f"sqlite:///{tmp_path}/work.db?synchronous=normal"
        case _:
            return str(request.getfixturevalue("database"))
