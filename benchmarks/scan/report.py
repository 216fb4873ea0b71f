"""The table of the scan benchmark, out of saved figures."""

from collections.abc import Sequence
from statistics import median

from benchmarks.report import Saved, Sections, about, rate, table

OVER = 0.15  # what a scan may cost more than the plain loop
NAMES = {
    "sqlite": "rows of an SQLite table",
    "postgres": "rows of a PostgreSQL table",
    "lines": "lines of JSON",
    "parquet": "rows of a Parquet file",
    "files": "files of a tree",
}


def _scan(found: Sequence[Saved]) -> str:
    file = next((one for one in found if one["part"] == "scan"), None)
    if file is None:
        return ""
    rows = []
    for kind, name in NAMES.items():
        rates = {
            who: [
                one["records"] / one["seconds"] for one in file["figures"] if (one["kind"], one["who"]) == (kind, who)
            ]
            for who in ("plain", "swath")
        }
        if all(rates.values()):
            plain, swath = median(rates["plain"]), median(rates["swath"])
            over = plain / swath - 1
            rows.append(
                [name, rate(swath), rate(plain), f"{over:+.0%}" + (f" (goal {OVER:+.0%})" if over > OVER else "")]
            )
    head = ["source", "swath, 1 worker, per second", "plain loop", "time over it"]
    return f"{table(head, rows)}\n\n{about(file)}"


SECTIONS: Sections = {"scan": _scan}
