"""The kill table, built from saved figures."""

from collections.abc import Sequence

from benchmarks.report import Saved, Sections, about, table


def _kills(found: Sequence[Saved]) -> str:
    file = next((file for file in found if file["part"] == "kills" and file["figures"]), None)
    if file is None:
        return ""
    head = ["crawler", "kills", "items lost", "items doubled", "broken lines", "pages fetched again", "says at the end"]
    by_name: dict[str, list[Saved]] = {}
    for figure in file["figures"]:
        by_name.setdefault(figure["name"], []).append(figure)
    rows = []
    for name, rounds in by_name.items():
        total = {
            key: sum(figure[key] for figure in rounds)
            for key in ("kills", "books", "lost", "doubled", "broken", "wrong", "pages_again")
        }
        rows.append(
            [
                name,
                f"{total['kills']}",
                _mark(total["lost"], f" of {total['books']:,}"),
                _mark(total["doubled"]),
                _mark(total["broken"] + total["wrong"]),
                f"{total['pages_again']:,}",
                _describe_ends(rounds),
            ]
        )
    return f"{table(head, rows)}\n\n{about(file)}"


def _mark(count: int, more: str = "") -> str:
    return f"**{count:,}**{more}" if count else f"0{more}"


def _describe_ends(rounds: Sequence[Saved]) -> str:
    """Say what the crawler said in its last run of each round."""
    ends: dict[str, int] = {}
    for figure in rounds:
        said = figure["says"]
        ends[said] = ends.get(said, 0) + 1
    failed = sum(figure["failed_runs"] for figure in rounds)
    words = ", ".join(f"{said} ({count} of {len(rounds)})" for said, count in ends.items())
    return words + (f"; {failed} runs failed" if failed else "")


SECTIONS: Sections = {"kills": _kills}
