"""A table file does not change without a new format: stores in the old one would fail in the middle of their work."""

import pytest

from scripts.record_format import FORMATS, FUNCTION_SET, hash_tables, read_manifest, render_fixture
from swath.backends import sql
from swath.backends.postgres.statements import FUNCTIONS

WHAT_TO_DO = (
    "the table files of {backend} are not those of format {number}: put the change in a new migration, raise "
    "FORMAT and run `make record-format`"
)


@pytest.mark.parametrize("backend", FORMATS)
def test_tables_change_only_with_the_format(backend: str) -> None:
    number = FORMATS[backend]
    recorded = read_manifest()[backend].get(str(number), {})
    tables = {file: text for file, text in recorded.items() if file != FUNCTION_SET}
    assert hash_tables(backend) == tables, WHAT_TO_DO.format(backend=backend, number=number)


@pytest.mark.parametrize("backend", FORMATS)
def test_migrations_of_earlier_formats_are_frozen(backend: str) -> None:
    hashes = hash_tables(backend)
    for number, recorded in read_manifest()[backend].items():
        migrations = {file: text for file, text in recorded.items() if file.startswith("migrations/")}
        assert migrations.items() <= hashes.items(), f"a migration of format {number} was changed or removed"


def test_stored_functions_change_only_with_their_recorded_hash() -> None:
    recorded = read_manifest()["postgres"][str(FORMATS["postgres"])]
    assert recorded[FUNCTION_SET] == FUNCTIONS.hash, (
        "the stored functions of PostgreSQL changed. May functions of an earlier version work on the same tables at "
        "the same time? If not, raise FORMAT and add a migration. Then run `make record-format`"
    )


def test_the_fixture_of_a_function_set_holds_all_of_its_functions() -> None:
    assert dict(sql.parse(render_fixture(), source="fixture")) == FUNCTIONS.statements
