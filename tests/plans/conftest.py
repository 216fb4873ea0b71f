"""Plans differ by version, so these tests run on every PostgreSQL there is, too."""

from tests.postgres.conftest import database, server, site, url

__all__ = ["database", "server", "site", "url"]
