"""Hosts made of single spots, each of which has its trouble and its fate written beside it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from swath.testing.web.answer import NOT_FOUND, Answer, Ask
from swath.testing.web.expectation import ROBOTS, Fate, Verdict
from swath.testing.web.page import plain_page
from swath.testing.web.plan import Plan, trouble_name

Respond = Callable[[Ask], Answer]


@dataclass(frozen=True, slots=True)
class Beyond:
    """Targets without number below a prefix: a trap."""

    respond: Callable[[Ask], Answer | None]
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Spots:
    """A host of the `Site` protocol: targets, and what each answers."""

    host: str
    kind: str
    spots: Mapping[str, tuple[Respond, Verdict]]
    foreign: Mapping[str, Verdict]
    beyond: Beyond | None
    introduced: bool  # linked from the front page of the troubles
    guard: Callable[[Ask], Answer | None]
    counts_targets: bool = True

    def answer(self, ask: Ask) -> Answer:
        guarded = self.guard(ask)
        if guarded is not None:
            return guarded
        found = self.spots.get(ask.target)
        if found is not None:
            return found[0](ask)
        beyond = None if self.beyond is None else self.beyond.respond(ask)
        return NOT_FOUND if beyond is None else beyond

    def verdict(self, target: str) -> Verdict | None:
        found = self.spots.get(target)
        if found is not None:
            return found[1]
        if self.beyond is not None and self.beyond.respond(Ask(self.host, target)) is not None:
            return self.beyond.verdict
        return None

    def verdicts(self) -> Iterator[tuple[str, Verdict]]:
        for target, (_, verdict) in self.spots.items():
            yield target, verdict
        yield from self.foreign.items()


@dataclass(slots=True)
class Sketch:
    """Collects the spots of a host. Its front page links to each, unless `linked` is False."""

    plan: Plan
    kind: str
    host: str = ""
    spots: dict[str, tuple[Respond, Verdict]] = field(default_factory=dict)
    foreign: dict[str, Verdict] = field(default_factory=dict)
    hrefs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.host = self.host or trouble_name(self.kind)
        self.add("/robots.txt", NOT_FOUND, ROBOTS, linked=False)

    def url(self, target: str) -> str:
        return self.plan.url(self.host, target)

    def add(self, target: str, answer: Answer | Respond | None, verdict: Verdict, *, linked: bool = True) -> None:
        """A spot; without an answer, a small page."""
        if answer is None:
            answer = plain_page(self.url(target), [])
        self.spots[target] = (answer if callable(answer) else _always(answer), verdict)
        if linked:
            self.hrefs.append(target)

    def must(
        self, target: str, answer: Answer | Respond | None = None, *,
        status: int = 200, linked: bool = True, by_sitemap: bool = False, retries: int = 0,
    ) -> None:  # fmt: skip
        verdict = Verdict(Fate.MUST, self.kind, status, by_sitemap, retries)
        self.add(target, answer, verdict, linked=linked)

    def attempt(self, target: str, answer: Answer | Respond, *, linked: bool = True) -> None:
        self.add(target, answer, Verdict(Fate.TRY, self.kind), linked=linked)

    def may(self, target: str, answer: Answer | Respond | None = None, *, linked: bool = True) -> None:
        self.add(target, answer, Verdict(Fate.MAY, self.kind), linked=linked)

    def never(self, target: str, *, linked: bool = True) -> None:
        self.add(target, None, Verdict(Fate.NEVER, self.kind), linked=linked)

    def robots(self, answer: Answer | Respond) -> None:
        self.add("/robots.txt", answer, ROBOTS, linked=False)

    def stranger(self, url: str, *, written: str | None = None) -> None:
        """A URL outside of the web that the front page links to, perhaps written otherwise; it is never asked for."""
        self.foreign[url] = Verdict(Fate.NEVER, self.kind)
        self.hrefs.append(url if written is None else written)

    def site(
        self, *, front: Fate = Fate.MUST, introduced: bool = True, hrefs: Iterable[str] = (),
        beyond: Callable[[Ask], Answer | None] | None = None, guard: Callable[[Ask], Answer | None] | None = None,
        front_retries: int = 0,
    ) -> Spots:  # fmt: skip
        if "/" not in self.spots:
            page = plain_page(f"The trouble with {self.kind}", [*self.hrefs, *hrefs])
            status = 200 if front is Fate.MUST else None
            self.add("/", page, Verdict(front, self.kind, status, retries=front_retries))
        trap = None if beyond is None else Beyond(beyond, Verdict(Fate.MAY, "trap"))
        return Spots(self.host, self.kind, self.spots, self.foreign, trap, introduced, guard or _unguarded)


def at_first(failures: int, failure: Respond | Answer, success: Respond | Answer) -> Respond:
    """Fails for the first requests to this target, then does well."""

    def respond(ask: Ask) -> Answer:
        chosen = failure if ask.again < failures else success
        return chosen(ask) if callable(chosen) else chosen

    return respond


def _always(answer: Answer) -> Respond:
    return lambda _: answer


def _unguarded(_: Ask) -> Answer | None:
    return None
