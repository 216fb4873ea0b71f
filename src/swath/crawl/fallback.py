"""Fallback: try the other forms of a seed that was given as a bare host name, as browsers do.

`example.com` is tried as https://example.com/, http://example.com/, https://www.example.com/ and
http://www.example.com/, until one of them answers. Each form is an item of its own. A form that cannot be reached
settles as done and discovers the next one. If all fail, the last one is dead. A retry of that one begins with the first
form again.
"""

from typing import Any, Final

from swath import Done, Frontier, Item, Release, retry_while_unavailable
from swath.crawl.archive.record import Capture
from swath.crawl.fact_batcher import FactBatcher
from swath.crawl.failed_pages import RETRY_FACT
from swath.crawl.http.response import Response
from swath.crawl.links import LaneNamer
from swath.crawl.page_request import get_url
from swath.crawl.refusal import build_line
from swath.crawl.urls.normalise import host, list_later_forms

BARE = "bare"  # in the payload of a seed without a scheme, and of its later forms
TRIED = "tried"  # in the payload of a later form: each earlier form and why it failed
FALLBACK = "fallback"  # in the result of a form that cannot be reached: the next form
FACT_PREFIX = "final form "  # key of the fact that a form has no later ones: this prefix and its URL
# Key of the fact with the value that RETRY_FACT had in the latest round of a seed: this prefix and its first form.
ROUND_PREFIX = "forms tried "
FORM_REPEATS = 1  # repeats of a form that cannot be reached, if there is another one
RECHECK_SECONDS = 1.0  # while another worker settles the next form
MAX_REASON = 200  # characters of a reason in a payload

# Failures to reach a host at this form. Every other response, such as a 404, is an answer.
UNREACHABLE: Final = frozenset(
    (
        "dns",
        "dns-negative",
        "refused",
        "unreachable",
        "timeout",
        "timeout-connect",
        "timeout-first-byte",
        "tls",
        "reset",
        "protocol",
    )
)


class Fallback:
    """Finds the next form of a bare seed, and settles the form that failed."""

    def __init__(self, frontier: Frontier, facts: FactBatcher, *, lane_of: LaneNamer) -> None:
        self._frontier = frontier
        self._facts = facts
        self._lane_of = lane_of

    async def find_next_form(self, item: Item, error: str) -> str | None:
        """Return the form to try after this one failed with a kind of error; None if there is none."""
        if not _is_bare(item) or error not in UNREACHABLE:
            return None
        forms = list_later_forms(item.key)
        if error.startswith("dns"):  # the other scheme has the same name
            forms = [form for form in forms if host(form) != host(item.key)]
        if not forms or await self._facts.get(FACT_PREFIX + item.key) is not None:
            return None
        return forms[0]

    async def fall_back(self, item: Item, form: str, reason: str, *, started: bool) -> Done | Release:
        """Return the outcome of a form that cannot be reached. `started` says whether a request was sent this time."""
        tried = [*item.payload.get(TRIED, ()), [item.key, reason[:MAX_REASON]]]
        found = {FALLBACK: form, "error": reason}
        retry = await self._facts.get(RETRY_FACT)
        # An earlier round may have settled the form with FALLBACK, or be about to, in `restart`.
        reopened = await retry_while_unavailable(
            lambda: self._frontier.reopen_done(form, result_key=FALLBACK, audit=False)
        )
        if not reopened and retry is not None and await self._is_claimed(form):
            return item.release(started=started, after=RECHECK_SECONDS)
        return item.done(
            result=found,
            discovered=[Item(form, self._lane_of(form), item.priority, {**item.payload, TRIED: tried})],
            facts={ROUND_PREFIX + tried[0][0]: retry},
            output=[Capture(build_line(item, found), None)],
            started=started,
        )

    async def _is_claimed(self, url: str) -> bool:
        return (await retry_while_unavailable(lambda: self._frontier.explain(url))).state == "claimed"

    async def restart(self, item: Item) -> Done | None:
        """Return the outcome of a later form that was made ready again because all failed; None for any other page.

        The first form is tried again instead, and leads back to this one if it fails.
        """
        tried = (item.payload or {}).get(TRIED)
        if not tried or not _is_bare(item):  # the target of a redirect is a page of its own, and has the forms, too
            return None
        first = tried[0][0]
        retry = await self._facts.get(RETRY_FACT)
        if retry == await self._facts.get(ROUND_PREFIX + first):
            return None
        await retry_while_unavailable(lambda: self._frontier.reopen_done(first, result_key=FALLBACK, audit=False))
        found = {FALLBACK: first, "error": "all forms failed before"}
        output = [Capture(build_line(item, found), None)]
        return item.done(result=found, facts={ROUND_PREFIX + first: retry}, output=output, started=False)

    async def return_to_form(self, payload: dict[str, Any], target: str) -> None:
        """Queue an earlier form again if a later one redirects to it: then it is the only one.

        It is retried like any other page, because it does not fall back again.
        """
        if any(url == target for url, _ in payload.get(TRIED, ())):
            await self._facts.learn({FACT_PREFIX + target: True})
            await retry_while_unavailable(lambda: self._frontier.reopen_done(target, result_key=FALLBACK, audit=False))


def is_unreachable_form(item: Item, response: Response) -> bool:
    """Return whether an item is a bare seed whose host cannot be reached at this form."""
    return _is_bare(item) and response.error in UNREACHABLE


def _is_bare(item: Item) -> bool:
    return BARE in (item.payload or {})


def get_first_form(item: Item) -> str:
    """Return the URL of a seed: for a later form of a bare host name, that of the first one."""
    tried = (item.payload or {}).get(TRIED)
    return tried[0][0] if tried else get_url(item)


def describe_forms(item: Item, reason: str) -> str:
    """Return the reason why a page is given up. For a bare seed it has each cause, with the forms that failed so."""
    tried: list[tuple[str, str]] = (item.payload or {}).get(TRIED, [])
    if not tried:
        return reason
    forms_by_cause: dict[str, list[str]] = {}
    for url, cause in (*tried, (item.key, reason)):
        forms_by_cause.setdefault(cause, []).append(url)
    return "; ".join(f"{cause} ({', '.join(forms)})" for cause, forms in forms_by_cause.items())
