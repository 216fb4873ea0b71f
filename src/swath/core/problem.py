"""Problem: something about a store or its surroundings that is wrong, or will be."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, with values, and what to do about it. `name` is stable."""

    name: str
    text: str
    advice: str
