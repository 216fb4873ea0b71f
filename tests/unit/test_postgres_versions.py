"""A PostgreSQL store notices from the versions of partitions that its database is in an earlier state."""

import pytest

from swath.backends.postgres.location import PostgresLocation
from swath.backends.postgres.store import PostgresStore


@pytest.fixture
def store() -> PostgresStore:
    """A store that has no connection."""
    store = object.__new__(PostgresStore)
    store.location = PostgresLocation.parse("postgresql://host/db")
    store._versions, store._rewound = {}, 0
    return store


def reply(store: PostgresStore, *pairs: int, before: dict[int, int] | None = None) -> int:
    """Take the versions of a reply, and return how often an earlier state was noticed."""
    store._compare_versions(pairs, dict(store._versions) if before is None else before)
    return store._rewound


def test_an_earlier_state_is_noticed_once_for_all_partitions(store: PostgresStore) -> None:
    assert reply(store, 0, 5, 1, 9, 2, 7) == 0
    assert reply(store, 0, 4) == 1
    assert reply(store, 1, 3, 2, 6) == 1
    assert store._versions == {0: 4, 1: 3, 2: 6}
    assert reply(store, 2, 5) == 2


def test_the_same_version_is_no_earlier_state(store: PostgresStore) -> None:
    assert reply(store, 0, 5) == 0
    assert reply(store, 0, 5) == 0


def test_replies_may_arrive_in_another_order(store: PostgresStore) -> None:
    reply(store, 0, 5)
    before = dict(store._versions)
    assert reply(store, 0, 8, before=before) == 0
    assert reply(store, 0, 6, before=before) == 0
    assert store._versions == {0: 8}
