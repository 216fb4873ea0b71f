"""The tables of the crawl benchmark, built from saved figures."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.report import Saved, Sections, about, rate, table

# The goals. The tables mark a figure that misses one.
OF_BARE = 0.6
OF_ONE_PROCESS = 0.85
OF_SQLITE = 0.85
FRONTIER_SHARE = 0.2
IN_FLIGHT = 0.9
OF_PLAIN = 0.92  # pages per CPU-second of a crawl with a handler
OF_SCRAPY = 10
RSS_MB = {500: 300, 5_000: 800}

NO_HANDLER, ASYNC_HANDLER, PLAIN_HANDLER, SCRAPY_FIELDS = (
    "swath, no handler", "swath, async handler", "swath, plain handler, in threads", "Scrapy, six fields",
)  # fmt: skip
BARE, SWATH, TWO, POSTGRES = (
    "bare loop, the same WARC", "swath, SQLite, WARC", "swath, SQLite, WARC, 2 processes", "swath, PostgreSQL, WARC",
)  # fmt: skip


def _race(found: Sequence[Saved]) -> str:
    file = _file("crawl-race", found)
    if file is None:
        return ""
    figures = median_figures(file["figures"])
    head = ["crawler", "pages per CPU-second", "pages/s", "peak RSS, MB", "pages of those that exist"]
    rows = [
        [
            name,
            rate(one["pages_per_cpu_s"]) + _server(one),
            rate(one["pages_per_s"]),
            rate(one["rss_mb"]),
            _format_pages(one),
        ]
        for name, one in figures.items()
    ]
    return "\n\n".join([table(head, rows), _goals(figures), about(file)])


def median_figures(figures: Sequence[Saved]) -> dict[str, dict[str, Any]]:
    """Return the medians of each crawler over its rounds, in the order of their first round."""
    by_name: dict[str, list[Saved]] = {}
    for one in figures:
        by_name.setdefault(one["name"], []).append(one)
    return {name: _medians(rounds) for name, rounds in by_name.items()}


def _medians(rounds: Sequence[Saved]) -> dict[str, Any]:
    first = rounds[0]
    return {
        key: value if isinstance(value, str) else median(one[key] for one in rounds) for key, value in first.items()
    }


def _format_pages(one: Mapping[str, Any]) -> str:
    return f"{one['pages']:,.0f} of {one['exist']:,.0f}"


def _server(one: Mapping[str, Any]) -> str:
    seconds = one.get("server_cpu_seconds")
    return "" if seconds is None else f" (and the server {seconds / one['pages'] * 1000:.2f} ms a page)"


def _goals(figures: Mapping[str, Mapping[str, Any]]) -> str:
    lines = []
    for ours, other, goal in ((SWATH, BARE, OF_BARE), (TWO, SWATH, OF_ONE_PROCESS), (POSTGRES, SWATH, OF_SQLITE)):
        if ours in figures and other in figures:
            share = figures[ours]["pages_per_cpu_s"] / figures[other]["pages_per_cpu_s"]
            verdict = "reached" if share >= goal else "**missed**"
            lines.append(f"- {ours}: {share:.0%} of “{other}” by CPU; the goal of {goal:.0%} is {verdict}.")
    if SWATH in figures and "Scrapy, memory" in figures:
        times = figures[SWATH]["pages_per_cpu_s"] / figures["Scrapy, memory"]["pages_per_cpu_s"]
        lines.append(f"- {SWATH}: {times:.1f} times the pages per CPU-second of Scrapy.")
    return "\n".join(lines)


def _handlers(found: Sequence[Saved]) -> str:
    file = _file("crawl-handlers", found)
    if file is None:
        return ""
    figures = median_figures(file["figures"])
    plain = figures.get(NO_HANDLER, {}).get("pages_per_cpu_s")
    head = ["crawl", "pages per CPU-second", "of the crawl without a handler", "peak RSS, MB", "items"]
    rows = [
        [
            name,
            rate(one["pages_per_cpu_s"]),
            f"{one['pages_per_cpu_s'] / plain:.0%}" if plain and name.startswith("swath") else "",
            rate(one["rss_mb"]),
            rate(one.get("items", 0)),
        ]
        for name, one in figures.items()
    ]
    return "\n\n".join([table(head, rows), _handler_goals(figures), about(file)])


def _handler_goals(figures: Mapping[str, Mapping[str, Any]]) -> str:
    lines = []
    for name in (ASYNC_HANDLER, PLAIN_HANDLER):
        if name in figures and NO_HANDLER in figures:
            share = figures[name]["pages_per_cpu_s"] / figures[NO_HANDLER]["pages_per_cpu_s"]
            verdict = "reached" if share >= OF_PLAIN else "**missed**"
            lines.append(f"- {name}: the goal of {OF_PLAIN:.0%} of a crawl without a handler is {verdict}.")
        if name in figures and SCRAPY_FIELDS in figures:
            times = figures[name]["pages_per_cpu_s"] / figures[SCRAPY_FIELDS]["pages_per_cpu_s"]
            verdict = "reached" if times >= OF_SCRAPY else "**missed**"
            lines.append(f"- {name}: {times:.1f} times the pages per CPU-second of Scrapy; {OF_SCRAPY} is {verdict}.")
    return "\n".join(lines)


def _tls(found: Sequence[Saved]) -> str:
    file = _file("crawl-tls", found)
    if file is None:
        return ""
    head = ["", "pages per CPU-second", "pages/s", "pages of those that exist"]
    rows = [
        [one["name"], rate(one["pages_per_cpu_s"]), rate(one["pages_per_s"]), _format_pages(one)]
        for one in file["figures"]
    ]
    return f"{table(head, rows)}\n\n{about(file)}"


def _profile(found: Sequence[Saved]) -> str:
    file = _file("crawl-profile", found)
    if file is None:
        return ""
    one = file["figures"][-1]
    total = sum(one["parts"].values())
    rows = [
        [part, f"{seconds / one['pages'] * 1e6:,.0f}", f"{seconds / total:.0%}"]
        for part, seconds in sorted(one["parts"].items(), key=lambda pair: -pair[1])
    ]
    share = one["parts"]["frontier"] / total
    verdict = "reached" if share < FRONTIER_SHARE else "**missed**"
    goal = (
        f"The frontier has {share:.0%} of the crawler's CPU; the goal of less than {FRONTIER_SHARE:.0%} is {verdict}."
    )
    return "\n\n".join([table(["part", "µs a page", "share"], rows), goal, about(file)])


def _slow(found: Sequence[Saved]) -> str:
    file = _file("crawl-slow", found)
    if file is None:
        return ""
    head = ["workers", "in flight of those that could be", "most in flight", "peak RSS, MB", "CPU, of one core"]
    rows = []
    for one in file["figures"]:
        missed = one["in_flight_share"] < IN_FLIGHT
        most = RSS_MB.get(one["workers"], 10**9)
        rows.append(
            [
                f"{one['workers']:,}",
                f"{one['in_flight_share']:.1%}" + (f" (goal {IN_FLIGHT:.0%})" if missed else ""),
                f"{one['most_in_flight']:,}",
                rate(one["rss_mb"]) + (f" (goal {most})" if one["rss_mb"] >= most else ""),
                f"{one['cpu_seconds'] / one['seconds']:.0%}",
            ]
        )
    return f"{table(head, rows)}\n\n{about(file)}"


def _polite(found: Sequence[Saved]) -> str:
    file = _file("crawl-polite", found)
    if file is None:
        return ""
    head = ["hosts", "delay", "minutes", "requests/s", "hosts ÷ delay", "of that", "shortest gap", "pages"]
    head += ["URLs waiting at the end", "peak RSS, MB", "CPU, of one core"]
    rows = [
        [
            f"{one['hosts']:,}",
            f"{one['delay_seconds']:g} s",
            f"{one['crawl_seconds'] / 60:.1f}",
            f"{one['requests_per_s']:.1f}",
            f"{one['most_per_s']:.1f}",
            f"{one['requests_per_s'] / one['most_per_s']:.1%}",
            f"{one['shortest_gap_seconds']:.3f} s" + _mark_short_gap(one),
            rate(one["pages"]),
            rate(one["queued"]),
            rate(one["rss_mb"]),
            f"{one['cpu_seconds'] / one['seconds']:.0%}",
        ]
        for one in file["figures"]
    ]
    return f"{table(head, rows)}\n\n{about(file)}"


def _mark_short_gap(one: Mapping[str, Any]) -> str:
    return " (**less than the delay**)" if one["shortest_gap_seconds"] < one["delay_seconds"] else ""


def _file(part: str, found: Sequence[Saved]) -> Saved | None:
    return next((file for file in found if file["part"] == part and file["figures"]), None)


SECTIONS: Sections = {
    "crawl-race": _race,
    "crawl-handlers": _handlers,
    "crawl-tls": _tls,
    "crawl-profile": _profile,
    "crawl-slow": _slow,
    "crawl-polite": _polite,
}
