"""The database sessions that this process has open, also those of the user's code."""

import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

# By driver: module, class of its connections, and how to get the pid of the server process
_DRIVERS: tuple[tuple[str, str, Callable[[Any], int]], ...] = (
    ("psycopg", "BaseConnection", lambda one: int(one.info.backend_pid)),
    ("psycopg2.extensions", "connection", lambda one: int(one.get_backend_pid())),
    ("asyncpg", "Connection", lambda one: int(one.get_server_pid())),
)


def list_session_pids() -> set[int]:
    """Return the server pids of all connections of this process to PostgreSQL.

    This looks at all objects in memory. It takes 0.1 s for some million objects, so call it only for a suspicion.
    """
    known = [
        (getattr(sys.modules[module], name), get_pid) for module, name, get_pid in _DRIVERS if module in sys.modules
    ]
    pids: set[int] = set()
    for one in gc.get_objects():
        for kind, get_pid in known:
            if issubclass(type(one), kind):  # isinstance would evaluate the lazy objects of Django
                with suppress(Exception):  # the driver's errors: another thread has closed it
                    pids.add(get_pid(one))
    return pids
