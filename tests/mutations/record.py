"""Which test runs which code: recorded once for each version of a test file.

python -m tests.mutations.record [FILE …]     record test files that are new or changed, or these
"""

import argparse
import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.mutations.probes import PROBE_MODULE, insert_probes
from tests.mutations.pytest_plugin import RECORD_TO
from tests.mutations.tree import ROOT, copy_tree

RECORD = ROOT / ".mutations" / "record.jsonl"
SOURCES = "src/swath"
# These compare source texts, so they notice any change.
NO_WITNESSES = ("tests/conformance/test_mutations.py", "tests/unit/test_formats.py", "tests/unit/test_mutations.py")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations.record", description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="test files; default: those that are new or changed")
    files = parser.parse_args().files or list_unrecorded_files()
    record_tests(files)
    return 0


def list_unrecorded_files() -> list[str]:
    known = {entry["file"]: entry["hash"] for entry in read_lines() if "hash" in entry}
    return [file for file in list_test_files() if known.get(file) != hash_of(file)]


def list_test_files() -> list[str]:
    """All test files. The crash tests come last: they take longest and say least about single lines."""
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    return sorted((file for file in files if file not in NO_WITNESSES), key=lambda file: file.startswith("tests/crash"))


def hash_of(file: str) -> str:
    return hashlib.sha256((ROOT / file).read_bytes()).hexdigest()[:16]


def record_tests(files: Sequence[str]) -> None:
    """Run test files in a copy with probes, one after the other, and append what they ran to the record."""
    RECORD.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="swath-record-") as directory:
        copy, probes, lines = Path(directory) / "tree", Path(directory) / "probes", Path(directory) / "lines"
        copy.mkdir()
        copy_tree(copy)
        probe_sources(copy)
        for number, file in enumerate(files, 1):
            shutil.rmtree(probes, ignore_errors=True)  # the tests of each file are numbered from 1
            probes.mkdir()
            lines.write_text("", encoding="utf-8")
            env = {
                **os.environ,
                "PYTHONPATH": str(copy / "src"),
                "SWATH_PROBES": str(probes),
                RECORD_TO: str(lines),
            }
            command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider"]
            command += ["-p", "tests.mutations.pytest_plugin", file]
            with subprocess.Popen(
                command, cwd=copy, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
            ) as process:
                output, _ = process.communicate()
            print(f"{number}/{len(files)} {file}: {output.strip().splitlines()[-1]}", flush=True)
            with RECORD.open("a", encoding="utf-8") as record:
                record.write(json.dumps({"file": file, "hash": hash_of(file)}) + "\n")
                record.write(lines.read_text(encoding="utf-8"))


def probe_sources(copy: Path) -> None:
    (copy / "src" / "swath_probes.py").write_text(PROBE_MODULE, encoding="utf-8")
    for path in (copy / SOURCES).rglob("*.py"):
        tree = insert_probes(ast.parse(path.read_text(encoding="utf-8")), str(path.relative_to(copy)))
        path.write_text(ast.unparse(tree), encoding="utf-8")


def read_lines() -> list[dict[str, Any]]:
    if not RECORD.exists():
        return []
    return [json.loads(line) for line in RECORD.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
