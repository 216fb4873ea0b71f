"""A table file does not change without a new format: stores in the old one would fail in the middle of their work."""

import pytest

from scripts.record_format import FORMATS, hash_tables, read_manifest

WHAT_TO_DO = (
    "the table files of {backend} are not those of format {number}. If a release has this format, put the change in a "
    "new migration and raise FORMAT, then run `python scripts/record_format.py`. If none has, run it with --replace"
)


@pytest.mark.parametrize("backend", FORMATS)
def test_tables_change_only_with_the_format(backend: str) -> None:
    number = FORMATS[backend]
    recorded = read_manifest()[backend].get(str(number))
    assert hash_tables(backend) == recorded, WHAT_TO_DO.format(backend=backend, number=number)


@pytest.mark.parametrize("backend", FORMATS)
def test_migrations_of_earlier_formats_are_frozen(backend: str) -> None:
    hashes = hash_tables(backend)
    for number, recorded in read_manifest()[backend].items():
        migrations = {file: text for file, text in recorded.items() if file.startswith("migrations/")}
        assert migrations.items() <= hashes.items(), f"a migration of format {number} was changed or removed"
