"""The format of a frontier's tables: its number, and the error for a store with another one.

`FORMAT` rises with every change of a table. tests/unit/test_formats.py fails if a table file changes and `FORMAT`
does not.
"""

from swath.core.errors import SchemaOutdated, SchemaTooNew, SwathError

FORMAT = 2  # the number of the last migration


def build_format_error(found: int, display_url: str) -> SwathError:
    """Return the error for a store whose format is not the one of this version."""
    formats = f"{display_url} has format {found}, this swath works with {FORMAT}"
    if found < FORMAT:
        return SchemaOutdated(f"{formats}: run `swath db migrate --store '{display_url}'`")
    return SchemaTooNew(f"{formats}: upgrade swath")
