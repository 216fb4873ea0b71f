"""PostgreSQL for every test that asks for it, and its version in the header."""

import os
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlsplit

import psycopg
import pytest
from psycopg import sql

from tests.postgres_server import FAST_SETTINGS, PostgresServer, installations, server_version

# A shell that runs us in the background ignores SIGINT, and so would the processes that the tests send it to.
signal.signal(signal.SIGINT, signal.default_int_handler)

GIVEN_DSN = os.environ.get("SWATH_TEST_POSTGRES")


class Server(Protocol):
    """Where databases can be created: started here, or given."""

    def dsn(self, dbname: str = ...) -> str: ...


class GivenServer:
    """The server that SWATH_TEST_POSTGRES names, whose state is not ours to change."""

    def __init__(self, url: str) -> None:
        if urlsplit(url).scheme not in ("postgresql", "postgres"):
            raise pytest.UsageError(f"SWATH_TEST_POSTGRES={url!r} is not a URL; write postgresql://user@host/dbname")
        self._url = url

    def dsn(self, dbname: str | None = None) -> str:
        if dbname is None:
            return self._url
        return urlsplit(self._url)._replace(path=f"/{quote(dbname, safe='')}").geturl()


class StartPostgres(Protocol):
    def __call__(self, *, major: int | None = ..., tcp: bool = ..., **settings: str) -> PostgresServer: ...


def pytest_report_header() -> list[str]:
    servers = [f"{server_version(bin_dir)} ({bin_dir})" for bin_dir in installations().values()]
    lines = ["postgresql: " + ", ".join(servers)]
    if GIVEN_DSN is not None:
        with psycopg.connect(GivenServer(GIVEN_DSN).dsn()) as connection:
            given = connection.info.parameter_status("server_version")
        lines.append(f"postgresql given by SWATH_TEST_POSTGRES: {given}")
    return lines


@pytest.fixture(scope="session")
def postgres_of() -> Iterator[Callable[[int | None], Server]]:
    """The shared server of a major version, started when first asked for; None is the default one."""
    running: dict[Path, PostgresServer] = {}
    with ExitStack() as stack:

        def server(major: int | None) -> Server:
            if major is None and GIVEN_DSN is not None:
                return GivenServer(GIVEN_DSN)
            bin_dir = _bin_dir(major)
            if bin_dir not in running:
                running[bin_dir] = stack.enter_context(PostgresServer(bin_dir=bin_dir, settings=FAST_SETTINGS))
            return running[bin_dir]

        yield server


@pytest.fixture(scope="session")
def postgres(postgres_of: Callable[[int | None], Server]) -> Server:
    """The shared server. It is fast and not durable; a test that stops it takes `start_postgres` instead."""
    return postgres_of(None)


@pytest.fixture
def database(request: pytest.FixtureRequest, postgres_of: Callable[[int | None], Server]) -> Iterator[str]:
    """The URL of a fresh, empty database, dropped afterwards.

    `@pytest.mark.parametrize("database", list(installations()), indirect=True)` runs a test on every version.
    """
    with fresh_database(postgres_of(getattr(request, "param", None))) as url:
        yield url


@pytest.fixture
def start_postgres() -> Iterator[StartPostgres]:
    """Starts servers of the test's own, durable unless settings say otherwise, and removes them afterwards."""
    with ExitStack() as stack:

        def start(*, major: int | None = None, tcp: bool = False, **settings: str) -> PostgresServer:
            return stack.enter_context(PostgresServer(bin_dir=_bin_dir(major), settings=settings, tcp=tcp))

        yield start


@contextmanager
def fresh_database(server: Server, *, template: str = "template1") -> Iterator[str]:
    name = f"swath_test_{secrets.token_hex(6)}"
    _administer(
        server,
        sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)),
    )
    try:
        yield server.dsn(name)
    finally:
        _administer(server, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _administer(server: Server, statement: sql.Composed) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(statement)


def _bin_dir(major: int | None) -> Path:
    found = installations()
    return next(iter(found.values())) if major is None else found[major]
