"""The frontiers in a SQLite file."""

from collections.abc import Sequence

from swath.backends.sqlite.connection import resolve_path
from swath.backends.sqlite.create import inspect_file
from swath.backends.sqlite.errors import translate_errors
from swath.backends.sqlite.location import DEFAULT_SCHEMA, SqliteLocation


def list_frontiers(url: str, path: str) -> Sequence[str]:
    """Return the URL of every frontier in a file. None if there is no such file."""
    location = SqliteLocation.of(resolve_path(path))
    with translate_errors(location.path):
        schemas = SqliteLocation.list_schemas(inspect_file(location).names)
    address, _, query = url.partition("?")
    others = [field for field in query.split("&") if field and not field.startswith("schema=")]
    urls = []
    for schema in schemas:
        fields = others if schema == DEFAULT_SCHEMA else [*others, f"schema={schema}"]
        urls.append(f"{address}?{'&'.join(fields)}" if fields else address)
    return urls
