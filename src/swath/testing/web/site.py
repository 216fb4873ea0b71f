"""The interface between the web and its hosts."""

from collections.abc import Iterator
from typing import Protocol

from swath.testing.web.expectation import Expectation
from swath.testing.web.scripted_response import Request, ScriptedResponse


class Site(Protocol):
    """One host: its responses, and the expectations for its URLs. Both are pure functions of their arguments."""

    @property
    def host(self) -> str: ...

    @property
    def counts_targets(self) -> bool:
        """Whether responses depend on `Request.target_requests`."""
        ...

    @property
    def takes_posts(self) -> bool:
        """Whether POST requests are answered. Those to other sites have status 405."""
        ...

    def respond(self, request: Request) -> ScriptedResponse: ...

    def expectation(self, target: str) -> Expectation | None:
        """Return the expectation for a path and query of this host; None if the web does not mention it."""
        ...

    def expectations(self) -> Iterator[tuple[str, Expectation]]:
        """Yield every target that the web mentions, except those inside traps. URLs of other hosts are absolute."""
        ...
