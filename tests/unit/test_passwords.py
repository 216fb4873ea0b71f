"""Passwords of a store are in no message, wherever in its URL they stand."""

import pytest

import swath
from swath.core.redact import find_passwords, mask_password

SECRET = "s3cret"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://user:{SECRET}@host:5432/db", "postgresql://user:***@host:5432/db"),
        (f"postgresql://user:{SECRET}@[::1]:5432/db", "postgresql://user:***@[::1]:5432/db"),
        (f"postgresql://user:a@{SECRET}@host/db", "postgresql://user:***@host/db"),
        (f"postgresql://user:a/{SECRET}@host/db", "postgresql://user:***@host/db"),
        (f"postgresql://user:a?{SECRET}@host/db", "postgresql://user:***@host/db"),
        (f"postgresql://user:a@b?{SECRET}@host/db", "postgresql://user:***@host/db"),
        (f"postgresql://user:a#{SECRET}@host/db", "postgresql://user:***@host/db"),
        (f"postgresql://user:%40{SECRET}%2F@host/db", "postgresql://user:***@host/db"),
        (f"postgresql://:{SECRET}@host/db", "postgresql://:***@host/db"),
        (f"postgre://user:{SECRET}@host", "postgre://user:***@host"),
        (f"postgresql://host/db?password={SECRET}&schema=s", "postgresql://host/db?password=***&schema=s"),
        (f"postgresql://host/db?schema=s&sslpassword={SECRET}", "postgresql://host/db?schema=s&sslpassword=***"),
        (f"postgresql://user:{SECRET}@host/db?password={SECRET}", "postgresql://user:***@host/db?password=***"),
        (f"postgresql://host/db?password={SECRET}#users", "postgresql://host/db?password=***#users"),
        ("postgresql://user@host:5432/db?schema=s", "postgresql://user@host:5432/db?schema=s"),
        ("postgresql://host:5432/db?user=me@home", "postgresql://host:5432/db?user=me@home"),
        ("postgresql:///db?host=/tmp", "postgresql:///db?host=/tmp"),
        ("sqlite:///work.db?schema=s", "sqlite:///work.db?schema=s"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert mask_password(url) == shown
    assert any(SECRET in found for found in find_passwords(url)) == (SECRET in url)


def test_a_password_is_known_by_both_of_its_spellings() -> None:
    assert find_passwords("postgresql://u:p%40ss@host/db?sslpassword=x") == {"p%40ss", "p@ss", "x"}


@pytest.mark.parametrize(
    "url",
    [
        f"postgre://host/db?password={SECRET}",
        f"postgre://user:{SECRET}@host/db",
        f"postgresql://user:{SECRET}@[::1/db",
        f"postgresql://user:{SECRET}℀@host/db",  # urllib refuses it, and quotes it
        f"sqlite://user:{SECRET}@host/work.db",
        f"sqlite:///work.db?password={SECRET}",
        f"sqlite:///work.db?password={SECRET}#x",
        f"sqlite:///?password={SECRET}",
    ],
)
def test_a_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(swath.InvalidStoreURL) as caught:
        swath.open(url)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_what_is_no_text_is_refused_without_its_password() -> None:
    """As the settings of an application may hold it: bytes, or a URL of some library's."""
    for url in (f"postgresql://user:{SECRET}@host/db".encode(), [f"postgresql://host/db?password={SECRET}"]):
        with pytest.raises(swath.InvalidStoreURL, match=r"postgresql://.*\*\*\*.*, not a URL: use") as caught:
            swath.open(url)  # type: ignore[arg-type]
        assert SECRET not in str(caught.value)


async def test_what_a_frontier_was_created_with_is_told_without_the_password(database: str) -> None:
    async with swath.open(database, partitions=2):
        pass
    url = f"{database}{'&' if '?' in database else '?'}password={SECRET}"
    with pytest.raises(swath.InvalidSetting, match="was created with 2") as caught:
        await swath.open(url, partitions=9)
    assert SECRET not in str(caught.value)
