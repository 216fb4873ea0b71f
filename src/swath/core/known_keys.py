"""KnownKeys: a bounded set of items that the store holds, so that common links are not sent to it again."""

from collections.abc import Iterable

CAPACITY = 200_000  # hashes, about 30 MB


class KnownKeys:
    """Holds at least the last CAPACITY / 2 hashes. A hash that was not added is never reported as known (INV-7)."""

    def __init__(self) -> None:
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()

    def __contains__(self, item_hash: bytes) -> bool:
        return item_hash in self._young or item_hash in self._old

    def update(self, hashes: Iterable[bytes]) -> None:
        self._young.update(hashes)
        if len(self._young) >= CAPACITY // 2:
            self._old, self._young = self._young, set()

    def clear(self) -> None:
        self._young, self._old = set(), set()
