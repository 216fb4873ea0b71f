"""Render saved figures as tables, print them, and write them between the markers in docs/benchmarks.md."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import load_results

Saved = Mapping[str, Any]

# Goals; the tables mark a figure that misses its goal.
FLOOR_SHARE = 0.8
FLOOR_SHARE_FROM_BATCH = 100
FLAT = 1.5
RSS_MB = 250
NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


Sections = Mapping[str, Callable[[Sequence[Saved]], str]]


def write(results: Path, docs: Path, sections: Sections | None = None, command: str = "make bench") -> None:
    """Replace every generated section of the docs. A section without figures says so."""
    if not docs.exists():
        return
    found = list(load_results(results)) if results.exists() else []
    text = docs.read_text(encoding="utf-8")
    for section, render in (SECTIONS if sections is None else sections).items():
        body = render(found) or f"_Not measured yet: `{command}`._"
        marked = re.compile(rf"(<!-- {section}:begin -->\n).*?(<!-- {section}:end -->)", re.DOTALL)
        text = marked.sub(lambda match, body=body: f"{match[1]}\n{body}\n\n{match[2]}", text)  # type: ignore[misc]
    docs.write_text(text, encoding="utf-8")


def show(results: Path, sections: Sections | None = None) -> None:
    found = list(load_results(results)) if results.exists() else []
    for render in (SECTIONS if sections is None else sections).values():
        if body := render(found):
            print(f"\n{body}")


# sections


def _moves(found: Sequence[Saved]) -> str:
    return _by_store("moves", found, _moves_table)


def _moves_table(file: Saved) -> str:
    columns: dict[str, Callable[[Saved], str]] = {
        "batch": _batch,
        "processes": lambda one: str(one["processes"]),
        "synchronous": lambda one: one["synchronous"],
        "items/s": lambda one: rate(one["swath_items_per_s"]),
        "floor": lambda one: rate(one["floor_items_per_s"]),
        "links/s": lambda one: rate(one["swath_links_per_s"]) if one["links_per_item"] else "",
        "floor's links/s": lambda one: rate(one["floor_links_per_s"]) if one["links_per_item"] else "",
        "of the floor": _share,
        "slowest, floor's": _slowest,
        "floor in a loop": lambda one: rate(one["floor_in_loop_items_per_s"]),
        "of that": lambda one: _percent(one["ratio_in_loop"]),
    }
    rows = [[column(figure) for column in columns.values()] for figure in file["figures"]]
    first = file["figures"][0]
    size = (
        f"{first['items']:,} items in {first['lanes']:,} lanes of one in flight, {first['partitions']} partition(s). "
        "Rows with links: 85% of them known already."
    )
    return "\n\n".join(part for part in (size, table(list(columns), rows), _range(file)) if part)


def _batch(figure: Saved) -> str:
    links = figure["links_per_item"]
    return str(figure["batch"]) + (f", {links} links an item" if links else "")


def _share(figure: Saved) -> str:
    if figure["ratio"] is None:
        return ""
    short = figure["batch"] >= FLOOR_SHARE_FROM_BATCH and figure["ratio"] < FLOOR_SHARE
    return _percent(figure["ratio"]) + (f" (goal {FLOOR_SHARE:.0%})" if short else "")


def _range(file: Saved) -> str:
    large = [one for one in file["figures"] if one["batch"] >= FLOOR_SHARE_FROM_BATCH]
    floor, in_loop = ([one[name] for one in large if one[name] is not None] for name in ("ratio", "ratio_in_loop"))
    if not floor or not in_loop:
        return ""
    return (
        f"From batch {FLOOR_SHARE_FROM_BATCH} on, swath does {min(floor):.0%} to {max(floor):.0%} of the floor, and "
        f"{min(in_loop):.0%} to {max(in_loop):.0%} of the floor in a loop."
    )


def _slowest(figure: Saved) -> str:
    if figure["swath_slowest"] is None or figure["floor_slowest"] is None:
        return ""
    return f"{figure['swath_slowest']:.0%}, {figure['floor_slowest']:.0%}"


def _claimers(found: Sequence[Saved]) -> str:
    return _by_store("claimers", found, _claimers_table)


def _claimers_table(file: Saved) -> str:
    head = ["claimers", "", "claims/s", "items/s", "p50 ms", "p99 ms", "max ms", "slowest claimer"]
    rows = [
        [
            str(figure["claimers"]),
            side,
            rate(one["claims_per_s"]),
            rate(one["items_per_s"]),
            f"{one['p50_ms']:.1f}",
            f"{one['p99_ms']:.1f}",
            f"{one['max_ms']:,.0f}",
            _percent(one["slowest"]),
        ]
        for figure in file["figures"]
        for side, one in (("swath", figure["swath"]), ("floor", figure["floor"]))
    ]
    first = file["figures"][0]
    size = (
        f"Claims of {first['batch']} in {first['processes']} processes; {first['items']:,} items in "
        f"{first['lanes']:,} lanes of one in flight, {first['partitions']} partition(s)."
    )
    return f"{size}\n\n{table(head, rows)}"


def _flatness(found: Sequence[Saved]) -> str:
    return _by_store("flatness", found, _flatness_table)


def _flatness_table(file: Saved) -> str:
    head = ["variant", "items", "claims", "p50 ms", "p99 ms", "p99 to smallest", "median, last to first quarter"]
    counted = any(figure.get("reads_p50") is not None for figure in file["figures"])
    head += ["page reads, median"] if counted else []
    rows = [
        [
            figure["variant"],
            f"{figure['items']:,}",
            f"{figure['claims']:,}",
            f"{figure['p50_ms']:.2f}",
            f"{figure['p99_ms']:.2f}",
            f"{figure['p99_to_smallest']:.2f}" + (f" (goal {FLAT})" if figure["p99_to_smallest"] > FLAT else ""),
            f"{figure['last_to_first_quarter']:.2f}",
            *([rate(figure["reads_p50"])] if counted else []),
        ]
        for figure in file["figures"]
    ]
    first = file["figures"][0]
    return f"Claims of {first['batch']}, one lane for every 20 items.\n\n{table(head, rows)}"


def _runner(found: Sequence[Saved]) -> str:
    return _by_store("runner", found, _runner_table)


def _runner_table(file: Saved) -> str:
    head = ["workers", "items in the frontier", "items/s", "connections", "threads", "peak RSS, MB"]
    rows = [
        [
            f"{figure['workers']:,}",
            f"{figure['items']:,}",
            rate(figure["items_per_s"]),
            str(figure["connections"]),
            str(figure["threads"]),
            f"{figure['rss_mb']:.0f}" + (f" (goal {RSS_MB})" if figure["rss_mb"] > RSS_MB else ""),
        ]
        for figure in file["figures"]
    ]
    return table(head, rows)


def _peers(found: Sequence[Saved]) -> str:
    return _by_store("peers", found, _peers_table)


def _peers_table(file: Saved) -> str:
    head = ["queue", "added/s", "worked off/s", "does", "does not"]
    rows = [
        [
            figure["name"],
            rate(figure["added_per_s"]),
            rate(figure["worked_per_s"]) + ("" if figure["finished"] else f" ({figure['worked']:,} in the time given)"),
            figure["does"],
            figure["lacks"],
        ]
        for figure in file["figures"]
    ]
    count = f"{file['figures'][0]['items']:,} keys, added in bulk, then worked off by one process."
    wins = _wins(file["figures"], {"added_per_s": "added a second", "worked_per_s": "worked off a second"}, larger=True)
    return "\n\n".join([count, table(head, rows), wins])


def _size(found: Sequence[Saved]) -> str:
    return _by_store("peers", found, _size_table)


def _size_table(file: Saved) -> str:
    head = ["queue", "ready", "done, as left", "done, after VACUUM (FULL)"]
    rows = [
        [figure["name"], *(rate(figure[name]) for name in ("bytes_ready", "bytes_done", "bytes_done_vacuumed"))]
        for figure in file["figures"]
    ]
    kinds = {"bytes_ready": "bytes an item that is ready", "bytes_done_vacuumed": "bytes an item that is done"}
    note = "Bytes an item, tables and indexes. A queue that forgets what is done, or keeps no seen-set, needs fewer."
    return "\n\n".join([note, table(head, rows), _wins(file["figures"], kinds, larger=False)])


def _wins(figures: Sequence[Saved], kinds: Mapping[str, str], *, larger: bool) -> str:
    """List the figures where a peer beats swath in its default configuration."""
    ours = next((figure for figure in figures if figure["name"] == "swath"), None)
    if ours is None:
        return ""
    lines = []
    for key, words in kinds.items():
        for figure in figures:
            mine, theirs = ours[key], figure[key]
            if figure["name"].startswith("swath") or mine is None or theirs is None:
                continue
            if (theirs > mine) if larger else (theirs < mine):
                lines.append(f"- **{figure['name']} wins**: {theirs:,.0f} {words}, swath {mine:,.0f}.")
    return "\n".join(lines) or f"No peer beats swath in {' or '.join(kinds.values())}."


SECTIONS: Sections = {
    "moves": _moves,
    "claimers": _claimers,
    "flatness": _flatness,
    "runner": _runner,
    "peers": _peers,
    "size": _size,
}


# parts of a section


def _by_store(part: str, found: Sequence[Saved], table: Callable[[Saved], str]) -> str:
    blocks = [
        f"### {NAMES[file['store']]}\n\n{table(file)}\n\n{about(file)}"
        for file in found
        if file["part"] == part and file["figures"]
    ]
    return "\n\n".join(blocks)


def about(file: Saved) -> str:
    """Return the machine, versions and settings in small print."""
    machine = file["machine"]
    trial = "**A trial run: too small or too short to say how fast anything is.** " if file["trial"] else ""
    hardware = (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, "
        f"load before {machine['load_before']}"
    )
    parts = [file["started"], hardware, _pairs(file["versions"]), _pairs(file["settings"]), f"commit {file['commit']}"]
    return f"<sub>{trial}{'; '.join(filter(None, parts))}; `{file['command']}`</sub>"


def _pairs(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def rate(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
