"""Texts are any Unicode, whatever a database, a role or a URL says about encodings."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest

from swath.backends.postgres import PostgresStore
from swath.conformance.trial import done
from swath.core.errors import InvalidStoreURL
from swath.core.store import Fact, Settings
from tests.conftest import Server
from tests.postgres.site import Site

ODD = "https://example.com/ü€😀"

DatabaseOf = Callable[[str], str]


@pytest.fixture
def database_of(server: Server) -> Iterator[DatabaseOf]:
    """Makes a database of an encoding, and returns a store URL in it."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection, ExitStack() as stack:

        def make(encoding: str) -> str:
            name = f"swath_test_{secrets.token_hex(6)}"
            connection.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0".encode())
            stack.callback(connection.execute, f"DROP DATABASE {name} WITH (FORCE)".encode())
            url = server.dsn(name)
            return f"{url}{'&' if '?' in url else '?'}schema=frontier"

        yield make


async def check_odd_texts(url: str) -> None:
    """They come back as they went in, through every way out."""
    site = Site(url)
    try:
        await check_texts_of(site)
    finally:
        await site.close()


async def check_texts_of(site: Site) -> None:
    trial = await site.trial(partitions=2)
    await trial.add(ODD, lane=ODD)
    await trial.store.learn([Fact(ODD, f'"{ODD}"')])
    assert await trial.store.facts([ODD]) == {ODD: f'"{ODD}"'}
    assert [lane.lane for _, lane in await trial.store.lanes()] == [ODD]
    batch = await trial.claim()
    assert [(item.key, item.lane) for item in batch.items] == [(ODD, ODD)]
    await batch.settle(done(batch.only), discovered=[trial.item(f"{ODD}/{n}", lane=trial.lane(n)) for n in range(2)])
    assert sorted((await trial.claim()).keys) == [f"{ODD}/0", f"{ODD}/1"]
    assert await trial.state(ODD) == "done"
    await trial.check()


async def test_a_database_without_an_encoding(database_of: DatabaseOf) -> None:
    """SQL_ASCII keeps the bytes that it is given, and these are UTF-8."""
    await check_odd_texts(database_of("SQL_ASCII"))


async def test_a_url_with_another_encoding(url: str) -> None:
    await check_odd_texts(f"{url}&client_encoding=LATIN1")


async def test_a_role_with_another_encoding(site: Site, role: str) -> None:
    await site.sql(f"ALTER ROLE {role} SET client_encoding = 'LATIN1'")
    await site.sql(f"CREATE SCHEMA {{schema}} AUTHORIZATION {role}")
    await check_odd_texts(site.url.replace("postgres@", f"{role}@"))


async def test_a_database_that_cannot_keep_every_text(database_of: DatabaseOf) -> None:
    """It is refused before anything is made in it, and not at the first odd character."""
    url = database_of("LATIN1")
    with pytest.raises(InvalidStoreURL, match=r"encoding LATIN1.*ENCODING 'UTF8'"):
        await PostgresStore.open(url, settings=Settings(1))
    site = Site(url)
    assert await site.sql("SELECT 1 FROM pg_namespace WHERE nspname = %s", site.location.schema) == []
