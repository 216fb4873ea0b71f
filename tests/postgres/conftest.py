"""Every test here runs on every PostgreSQL there is: the supported versions are those tested."""

import secrets
from collections.abc import AsyncIterator, Callable, Iterator

import psycopg
import pytest
import pytest_asyncio

from tests.conftest import GIVEN_DSN, Server, fresh_database
from tests.postgres.site import Site
from tests.postgres_server import installations


@pytest.fixture(scope="module", params=list(installations()) if GIVEN_DSN is None else [None], ids=lambda v: f"pg{v}")
def server(request: pytest.FixtureRequest, postgres_of: Callable[[int | None], Server]) -> Server:
    return postgres_of(request.param)


@pytest.fixture(scope="module")
def database(server: Server) -> Iterator[str]:
    """The URL of a database that the tests of a module share, to which a query can be appended."""
    with fresh_database(server) as url:
        yield url if "?" in url else f"{url}?"


@pytest.fixture
def url(database: str) -> str:
    """A store URL with a schema that is not there yet."""
    return f"{database}&schema=s{secrets.token_hex(6)}"


@pytest_asyncio.fixture
async def site(url: str) -> AsyncIterator[Site]:
    site = Site(url)
    yield site
    await site.close()


@pytest.fixture
def role(database: str) -> str:
    """Somebody who may log in, and nothing else."""
    name = f"role_{secrets.token_hex(4)}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN".encode())
        connection.execute(f"REVOKE ALL ON SCHEMA public FROM {name}".encode())
    return name
