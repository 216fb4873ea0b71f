"""FailedSeeds: name the seeds of a crawl that fail, as soon as they do."""

from collections.abc import Mapping
from typing import Any

from swath.cli.formatting import format_duration, pluralize
from swath.cli.terminal import print_error, print_event
from swath.crawl.stats import NAMED_SEEDS, SeedFailure


class FailedSeeds:
    """Prints a line for each of the first seeds that fail, and another one when such a seed is dead."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._named: dict[str, bool] = {}  # URL -> whether it was reported as dead

    def report(self, stats: Mapping[str, Any]) -> None:
        """Print what is new in the statistics."""
        for failure in stats.get("seed_failures", ()):
            self._report_seed(SeedFailure(*failure))

    def _report_seed(self, failure: SeedFailure) -> None:
        is_dead = failure.next_attempt_seconds is None
        known = self._named.get(failure.url)
        if known is None and len(self._named) >= NAMED_SEEDS:
            return
        if known is None or (is_dead and not known):
            self._named[failure.url] = is_dead
            self._print(failure, is_first=known is None)

    def _print(self, failure: SeedFailure, *, is_first: bool) -> None:
        if self._json:
            print_event("seed-failed", failure._asdict())
            return
        then = ""
        if failure.next_attempt_seconds is not None:
            then = f"; next attempt in {format_duration(round(failure.next_attempt_seconds, 1))}"
        elif not is_first:
            then = "; given up"
        print_error(f"seed {failure.url}: {failure.reason}{then}")

    def report_rest(self, stats: Mapping[str, Any]) -> None:
        """Print how many other seeds failed."""
        self.report(stats)
        unnamed = {url for url, *_ in stats.get("seed_failures", ())} - self._named.keys()
        others = stats.get("other_seed_failures", 0) + len(unnamed)
        if others and not self._json:
            print_error(f"{pluralize(others, 'more seed')} failed")
