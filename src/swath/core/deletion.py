"""The error of a store that is not deleted because a worker holds items of it."""

from swath.core.clock import as_datetime
from swath.core.errors import StoreUnavailable


def build_in_use_error(store: str, worker: str, items: int, expires_at: int) -> StoreUnavailable:
    until = f"{as_datetime(expires_at):%Y-%m-%d %H:%M:%S} UTC"
    return StoreUnavailable(
        f"{store} is in use: worker {worker} holds {items} of its items until {until}. Stop that worker, or wait until "
        "its lease ends. Nothing was deleted"
    )
