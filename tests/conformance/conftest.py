"""One fixture for all stores, so that no test knows which one it is on."""

from collections.abc import Iterator

import pytest

from tests.conformance.backends import ALL, BESIDE, Backend, backend_named


@pytest.fixture(scope="module", params=[*ALL, BESIDE])
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with backend_named(
        request.param,
        directory=tmp_path_factory.mktemp(request.param),
        server=lambda: request.getfixturevalue("postgres"),
    ) as backend:
        yield backend
