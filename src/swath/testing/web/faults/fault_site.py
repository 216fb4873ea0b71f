"""Hosts with faults: a table of pages, each with its response and its expectation."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from swath.testing.web.expectation import ROBOTS, Expectation, Requirement
from swath.testing.web.page import reply_html
from swath.testing.web.plan import Plan, fault_host
from swath.testing.web.scripted_response import NOT_FOUND, Request, ScriptedResponse

Respond = Callable[[Request], ScriptedResponse]
MaybeRespond = Callable[[Request], ScriptedResponse | None]


@dataclass(frozen=True, slots=True)
class EndlessPages:
    """An unlimited number of pages, as a trap has."""

    respond: MaybeRespond
    expectation: Expectation


@dataclass(frozen=True, slots=True)
class FaultSite:
    """A `Site` that is a table of targets."""

    host: str
    kind: str
    pages: Mapping[str, tuple[Respond, Expectation]]
    foreign: Mapping[str, Expectation]
    endless: EndlessPages | None
    linked_from_hub: bool  # the hub is faults.demo.test
    guard: MaybeRespond
    counts_targets: bool = True
    takes_posts: bool = False

    def respond(self, request: Request) -> ScriptedResponse:
        guarded = self.guard(request)
        if guarded is not None:
            return guarded
        found = self.pages.get(request.target)
        if found is not None:
            return found[0](request)
        endless = None if self.endless is None else self.endless.respond(request)
        return NOT_FOUND if endless is None else endless

    def expectation(self, target: str) -> Expectation | None:
        found = self.pages.get(target)
        if found is not None:
            return found[1]
        if self.endless is not None and self.endless.respond(Request(self.host, target)) is not None:
            return self.endless.expectation
        return None

    def expectations(self) -> Iterator[tuple[str, Expectation]]:
        for target, (_, expectation) in self.pages.items():
            yield target, expectation
        yield from self.foreign.items()


@dataclass(slots=True)
class FaultSiteBuilder:
    """Collect the pages of a host. Its front page links to each page unless `linked` is False.

    `must`, `attempt`, `may` and `never` add a page with the requirement MUST, TRY, MAY or NEVER.
    """

    plan: Plan
    kind: str
    host: str = ""
    pages: dict[str, tuple[Respond, Expectation]] = field(default_factory=dict)
    foreign: dict[str, Expectation] = field(default_factory=dict)
    hrefs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.host = self.host or fault_host(self.kind)
        self.add("/robots.txt", NOT_FOUND, ROBOTS, linked=False)

    def url(self, target: str) -> str:
        return self.plan.url(self.host, target)

    def add(
        self, target: str, response: ScriptedResponse | Respond | None, expectation: Expectation, *, linked: bool = True
    ) -> None:
        """Add a page. Without a response it is a small HTML page."""
        if response is None:
            response = reply_html(self.url(target), [])
        self.pages[target] = (response if callable(response) else _respond_always(response), expectation)
        if linked:
            self.hrefs.append(target)

    def must(
        self, target: str, response: ScriptedResponse | Respond | None = None, *,
        status: int = 200, linked: bool = True, by_sitemap: bool = False, retries: int = 0,
    ) -> None:  # fmt: skip
        expectation = Expectation(Requirement.MUST, self.kind, status, by_sitemap, retries)
        self.add(target, response, expectation, linked=linked)

    def attempt(self, target: str, response: ScriptedResponse | Respond, *, linked: bool = True) -> None:
        self.add(target, response, Expectation(Requirement.TRY, self.kind), linked=linked)

    def may(self, target: str, response: ScriptedResponse | Respond | None = None, *, linked: bool = True) -> None:
        self.add(target, response, Expectation(Requirement.MAY, self.kind), linked=linked)

    def never(self, target: str, *, linked: bool = True) -> None:
        self.add(target, None, Expectation(Requirement.NEVER, self.kind), linked=linked)

    def robots(self, response: ScriptedResponse | Respond) -> None:
        self.add("/robots.txt", response, ROBOTS, linked=False)

    def add_outside_link(self, url: str, *, written: str | None = None) -> None:
        """Link to a URL outside the web, which a crawl must not request. `written` is another spelling of it."""
        self.foreign[url] = Expectation(Requirement.NEVER, self.kind)
        self.hrefs.append(url if written is None else written)

    def build(
        self, *, front: Requirement = Requirement.MUST, linked_from_hub: bool = True, hrefs: Iterable[str] = (),
        endless: MaybeRespond | None = None, guard: MaybeRespond | None = None, front_retries: int = 0,
    ) -> FaultSite:  # fmt: skip
        if "/" not in self.pages:
            page = reply_html(f"Faults: {self.kind}", [*self.hrefs, *hrefs])
            status = 200 if front is Requirement.MUST else None
            self.add("/", page, Expectation(front, self.kind, status, retries=front_retries))
        trap = None if endless is None else EndlessPages(endless, Expectation(Requirement.MAY, "trap"))
        return FaultSite(
            self.host, self.kind, self.pages, self.foreign, trap, linked_from_hub, guard or _pass_every_request
        )


def fail_at_first(failures: int, failure: Respond | ScriptedResponse, success: Respond | ScriptedResponse) -> Respond:
    """Answer the first `failures` requests for a target with `failure`, later ones with `success`."""

    def respond(request: Request) -> ScriptedResponse:
        chosen = failure if request.target_requests < failures else success
        return chosen(request) if callable(chosen) else chosen

    return respond


def _respond_always(response: ScriptedResponse) -> Respond:
    return lambda _: response


def _pass_every_request(_: Request) -> ScriptedResponse | None:
    return None
