"""Figures, saved as soon as they are known, so that an interrupted run keeps them."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Figure = dict[str, Any]


@dataclass
class Results:
    """One file: the figures of one part on one store, with the machine and settings."""

    path: Path
    about: Mapping[str, Any]
    figures: list[Figure] = field(default_factory=list)

    def add(self, figure: Figure) -> None:
        self.figures.append(figure)
        self.save()

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**self.about, "figures": self.figures}, indent=1, ensure_ascii=False)
        draft = self.path.with_suffix(".tmp")
        draft.write_text(text + "\n", encoding="utf-8")
        os.replace(draft, self.path)


def load_results(directory: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(directory.glob("*.json")):
        yield json.loads(path.read_text(encoding="utf-8"))
