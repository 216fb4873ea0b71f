"""Chance that is decided: the same names give the same draws, in every process and on every Python."""

from collections.abc import Sequence
from hashlib import blake2b
from math import exp, log
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """Draws from a seed and names. Only `Random.random` is used: its sequence is promised to stay, others' are not."""

    __slots__ = ("_next",)

    def __init__(self, seed: int, *names: object) -> None:
        text = "\0".join(map(str, (seed, *names)))
        self._next = Random(int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "big")).random

    def below(self, bound: int) -> int:
        return int(self._next() * bound)

    def pick(self, values: Sequence[T]) -> T:
        return values[int(self._next() * len(values))]

    def happens(self, probability: float) -> bool:
        return self._next() < probability

    def skewed(self, least: int, most: int) -> int:
        """Between the two, small values as likely as large ones on a logarithmic scale."""
        return int(exp(log(least) + self._next() * (log(most) - log(least))))

    def bytes(self, length: int) -> bytes:
        return bytes(int(self._next() * 256) for _ in range(length))
