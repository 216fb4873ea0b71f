"""PostgresLocation: the database and the schema that a store URL names, and the URL with its password masked."""

import re
from dataclasses import dataclass
from urllib.parse import unquote

import psycopg
from psycopg import sql

from swath.core.errors import InvalidStoreURL
from swath.core.redact import MASK, mask_password

DEFAULT_SCHEMA = "swath"
_NAME = re.compile(r"[^\W\d]\w{0,62}")


@dataclass(frozen=True, slots=True)
class PostgresLocation:
    """The database and the schema of a frontier."""

    dsn: str
    schema: str
    display_url: str  # with passwords masked

    @classmethod
    def parse(cls, url: str) -> "PostgresLocation":
        display_url = mask_password(url)
        # Not with urllib, which decodes + as a space and drops slashes of postgresql:///db.
        address, _, query = url.partition("?")
        fields = [field.partition("=") for field in query.split("&") if field]
        schema = {name: unquote(value) for name, _, value in fields}.get("schema", DEFAULT_SCHEMA)
        if not is_schema_name(schema):
            raise InvalidStoreURL(
                f"schema={schema!r} is not a name for a schema: use letters, digits and _, at most 63"
            )
        rest = "&".join("".join(field) for field in fields if field[0] != "schema")
        dsn = f"{address}?{rest}" if rest else address
        try:
            psycopg.conninfo.conninfo_to_dict(dsn)
        except psycopg.ProgrammingError as error:
            raise InvalidStoreURL(f"{display_url}: {_hide_password(str(error), display_url)}") from None
        return cls(dsn, schema, display_url)

    def fill(self, statement: str, **literals: str) -> str:
        """Replace `{schema}` by the schema's quoted name, `{schema_literal}` and the other names by literals."""
        filled = statement.replace("{schema}", sql.Identifier(self.schema).as_string(None))
        filled = filled.replace("{schema_literal}", sql.Literal(self.schema).as_string(None))
        for name, value in literals.items():
            filled = filled.replace("{" + name + "}", sql.Literal(value).as_string(None))
        return filled


def is_schema_name(name: str) -> bool:
    """Return whether a frontier can be in a schema with this name."""
    return _NAME.fullmatch(name) is not None and len(name.encode()) <= 63 and not name.startswith("pg_")


def _hide_password(message: str, display_url: str) -> str:
    """Mask each text that libpq quotes in its message, unless the masked URL contains it too."""
    return re.sub(r'"(.*)"', lambda quoted: quoted[0] if quoted[1] in display_url else f'"{MASK}"', message.strip())
