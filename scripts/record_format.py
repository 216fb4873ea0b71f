"""Record the table format of each backend in tests/formats.json, as hashes of its table files, and the hash of
PostgreSQL's stored functions.

Run `make record-format` after raising FORMAT or changing a stored function. A recorded format is frozen: a change of
its table files goes into a new migration.

`python scripts/record_format.py --fixture`, in a checkout without the change, writes its set of stored functions to
the fixture of tests/postgres/test_function_sets.py, as the earlier set.
"""

import argparse
import hashlib
import json
import re
import sys
from importlib.resources import files
from pathlib import Path

from swath.backends.postgres.format import FORMAT as POSTGRES_FORMAT
from swath.backends.postgres.statements import FUNCTIONS
from swath.backends.sqlite.format import FORMAT as SQLITE_FORMAT

MANIFEST = Path(__file__).parents[1] / "tests" / "formats.json"
FORMATS = {"sqlite": SQLITE_FORMAT, "postgres": POSTGRES_FORMAT}
FIXTURE = Path(__file__).parents[1] / "tests" / "postgres" / "fixtures" / "functions_earlier.sql"
FUNCTION_SET = "functions"  # the key of PostgreSQL's stored functions; they may change within a format

Manifest = dict[str, dict[str, dict[str, str]]]  # backend, format, file: hash


def hash_tables(backend: str) -> dict[str, str]:
    """Hash the table files of a backend, without comments and white space: prose may change."""
    folder = files(f"swath.backends.{backend}")
    paths = [
        f"migrations/{file.name}" for file in folder.joinpath("migrations").iterdir() if file.name.endswith(".sql")
    ]
    if folder.joinpath("schema.sql").is_file():
        paths.append("schema.sql")
    return {path: _hash_statements(folder.joinpath(path).read_text(encoding="utf-8")) for path in sorted(paths)}


def _hash_statements(text: str) -> str:
    statements = " ".join(re.sub(r"--.*", "", text).split())
    return hashlib.sha256(statements.encode()).hexdigest()[:16]


def read_manifest() -> Manifest:
    manifest: Manifest = json.loads(MANIFEST.read_text(encoding="utf-8"))
    return manifest


def render_fixture() -> str:
    """Return the stored functions of this checkout, with constants and hash filled in, as a file of named blocks."""
    blocks = [f"-- name: {name}\n{statement};\n" for name, statement in FUNCTIONS.statements.items()]
    title = f"-- An earlier set of stored functions, {FUNCTIONS.hash}, for format {POSTGRES_FORMAT}"
    return "\n".join([f"{title}, as `FunctionSet` renders it.\n", *blocks])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--fixture", action="store_true", help="write this checkout's functions to the tests' fixture")
    if parser.parse_args().fixture:
        FIXTURE.write_text(render_fixture(), encoding="utf-8")
        return 0
    manifest = read_manifest() if MANIFEST.exists() else {}
    for backend, number in FORMATS.items():
        recorded = manifest.setdefault(backend, {})
        hashes = hash_tables(backend)
        before = {file: text for file, text in recorded.get(str(number), hashes).items() if file != FUNCTION_SET}
        if before != hashes:
            print(
                f"{backend}: format {number} is frozen with other tables: put the change into a new migration and "
                "raise FORMAT",
                file=sys.stderr,
            )
            return 1
        recorded[str(number)] = hashes | ({FUNCTION_SET: FUNCTIONS.hash} if backend == "postgres" else {})
    MANIFEST.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
