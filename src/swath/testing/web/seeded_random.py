"""Reproducible random numbers: the same names give the same numbers in every process and Python version."""

from collections.abc import Sequence
from hashlib import blake2b
from math import exp, log
from random import Random
from typing import TypeVar

T = TypeVar("T")


class SeededRandom:
    """Random values from a seed and names. Uses only `Random.random`, whose sequence Python guarantees to keep."""

    __slots__ = ("_next",)

    def __init__(self, seed: int, *names: object) -> None:
        text = "\0".join(map(str, (seed, *names)))
        self._next = Random(int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "big")).random

    def below(self, bound: int) -> int:
        return int(self._next() * bound)

    def pick(self, values: Sequence[T]) -> T:
        return values[int(self._next() * len(values))]

    def is_true(self, probability: float) -> bool:
        return self._next() < probability

    def log_uniform(self, least: int, most: int) -> int:
        """Return a number between the two, uniformly distributed on a logarithmic scale."""
        return int(exp(log(least) + self._next() * (log(most) - log(least))))

    def bytes(self, length: int) -> bytes:
        return bytes(int(self._next() * 256) for _ in range(length))
