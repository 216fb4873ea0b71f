"""Plans differ between versions, so these tests run on every installed PostgreSQL."""

from tests.postgres.conftest import database, server, site, url

__all__ = ["database", "server", "site", "url"]
