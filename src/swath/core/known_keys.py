"""A bounded memory of hashes that the store is known to hold, so that common keys are not offered again."""

from collections.abc import Iterable

CAPACITY = 200_000  # hashes, about 30 MB


class Recent:
    """Remembers at least the last CAPACITY / 2 hashes. It never says that it knows one it was not told of (INV-7)."""

    def __init__(self) -> None:
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()

    def __contains__(self, item: bytes) -> bool:
        return item in self._young or item in self._old

    def remember(self, hashes: Iterable[bytes]) -> None:
        self._young.update(hashes)
        if len(self._young) >= CAPACITY // 2:
            self._old, self._young = self._young, set()

    def clear(self) -> None:
        self._young, self._old = set(), set()
