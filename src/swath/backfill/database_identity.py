"""Which database a URL names, so that a table and a frontier in the same database can share a transaction."""

import os
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit


def is_same_database(db: str, store: str) -> bool:
    """Return whether two URLs name the same database, as far as the URLs tell."""
    return identify_database(db) == identify_database(store)


def identify_database(url: str) -> str:
    """Return a text that is the same for all URLs of a database."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return f"sqlite {os.path.realpath(unquote(parts.path.removeprefix('/')))}"
    from psycopg.conninfo import conninfo_to_dict

    # `schema` is an option of swath, which libpq does not know.
    options = [(name, value) for name, value in parse_qsl(parts.query) if name != "schema"]
    given = conninfo_to_dict(parts._replace(query=urlencode(options, quote_via=quote)).geturl())
    given["dbname"] = given.get("dbname") or given.get("user")  # PostgreSQL's default
    names = ("host", "hostaddr", "port", "dbname", "service")
    return " ".join(["postgresql", *(f"{name}={given[name]}" for name in names if given.get(name))])
