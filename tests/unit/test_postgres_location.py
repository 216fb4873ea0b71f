"""Store URLs: every part reaches PostgreSQL as it was written, and no password reaches anybody else."""

import psycopg
import pytest

from swath.backends.postgres.location import PostgresLocation
from swath.core.errors import InvalidStoreURL

SECRET = "s3cret"


def parsed(url: str) -> dict[str, object]:
    return dict(psycopg.conninfo.conninfo_to_dict(PostgresLocation.parse(url).dsn))


@pytest.mark.parametrize(
    ("url", "schema"),
    [
        ("postgresql://host/db", "swath"),
        ("postgresql://host/db?schema=news", "news"),
        ("postgresql://host/db?schema=news&sslmode=require", "news"),
        ("postgresql://host/db?sslmode=require&schema=New_s2", "New_s2"),
        ("postgresql://host/db?schema=%6eews", "news"),
        ("postgresql:///db?schema=größe", "größe"),
        ("postgresql:///db?schema=_x", "_x"),
        ("postgresql:///db?schema=" + "x" * 63, "x" * 63),
    ],
)
def test_the_schema(url: str, schema: str) -> None:
    location = PostgresLocation.parse(url)
    assert location.schema == schema
    assert "schema" not in psycopg.conninfo.conninfo_to_dict(location.dsn)
    assert location.fill("{schema}.x, {schema_literal}") == f"\"{schema}\".x, '{schema}'"


@pytest.mark.parametrize(
    "schema", ["", "2x", "a-b", 'a"b', "a b", "a;b", "a.b", "pg_mine", "x" * 64, "ü" * 32, "a%00b", "a'b", "{schema}"]
)
def test_no_name_for_a_schema(schema: str) -> None:
    with pytest.raises(InvalidStoreURL, match="not a name for a schema"):
        PostgresLocation.parse(f"postgresql://host/db?schema={schema}")


@pytest.mark.parametrize(
    ("query", "name", "value"),
    [
        ("options=-c%20statement_timeout%3D5", "options", "-c statement_timeout=5"),
        ("application_name=a+b", "application_name", "a+b"),
        ("application_name=a%2Bb", "application_name", "a+b"),
        ("application_name=a%26b%3Dc", "application_name", "a&b=c"),
        ("host=%2Ftmp%2Fsocket", "host", "/tmp/socket"),
        ("password=a+b", "password", "a+b"),
        ("connect_timeout=3", "connect_timeout", "3"),
    ],
)
def test_options_reach_the_server_as_written(query: str, name: str, value: str) -> None:
    for url in (
        f"postgresql:///db?{query}",
        f"postgresql:///db?schema=s&{query}",
        f"postgresql:///db?{query}&schema=s",
    ):
        assert parsed(url)[name] == value


def test_all_the_parts() -> None:
    url = f"postgresql://us%40er:{SECRET}%2F%40@one:5432,two:5433/d%2Fb?target_session_attrs=primary&schema=s"
    assert parsed(url) == {
        "user": "us@er",
        "password": f"{SECRET}/@",
        "host": "one,two",
        "port": "5432,5433",
        "dbname": "d/b",
        "target_session_attrs": "primary",
    }


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://user:{SECRET}@host:5432/db", "postgresql://user:***@host:5432/db"),
        (f"postgresql://host/db?password={SECRET}&schema=s", "postgresql://host/db?password=***&schema=s"),
    ],
)
def test_the_password_is_not_shown(url: str, shown: str) -> None:
    assert PostgresLocation.parse(url).display_url == shown


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://user:{SECRET}%zz@host/db",
        f"postgresql://user:{SECRET}%00@host/db",
        f"postgresql://host/db?password={SECRET}%zz",
        f"postgresql://user:{SECRET}@host/db?nonsense=1",
        f"postgresql://user:{SECRET}@[::1/db",
        f"postgresql://user:{SECRET}@host/db?sslmode",
    ],
)
def test_a_broken_url_is_refused_without_the_password(url: str) -> None:
    with pytest.raises(InvalidStoreURL) as caught:
        PostgresLocation.parse(url)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None or SECRET not in str(caught.value.__cause__)
    assert "user" in str(caught.value) or "password" in str(caught.value)


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(InvalidStoreURL, match="nonsense"):
        PostgresLocation.parse("postgresql://host/db?nonsense=1")


def test_literals_are_quoted() -> None:
    location = PostgresLocation.parse("postgresql:///db?schema=s")
    assert location.fill("{a} {schema}", a="it's") == "'it''s' \"s\""
