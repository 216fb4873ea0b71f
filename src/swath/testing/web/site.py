"""The seam between the web and its hosts."""

from collections.abc import Iterator
from typing import Protocol

from swath.testing.web.answer import Answer, Ask
from swath.testing.web.expectation import Verdict


class Site(Protocol):
    """One host: what it answers, and what a perfect crawl makes of it. Both are pure."""

    @property
    def host(self) -> str: ...

    @property
    def counts_targets(self) -> bool:
        """Whether answers depend on `Ask.again`."""
        ...

    def answer(self, ask: Ask) -> Answer: ...

    def verdict(self, target: str) -> Verdict | None:
        """The fate of a path and query of this host; None if nothing on the web names it."""
        ...

    def verdicts(self) -> Iterator[tuple[str, Verdict]]:
        """Every target that the web names, without what lies within traps; foreign URLs are given in full."""
        ...
