"""Scans in this process, and in processes of their own."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from swath.cli.scan_command import ScanCommand
from swath.scan.report import ScanReport, read_report
from swath.scan.settings import ScanSettings
from tests.cli.conftest import environment

ROOT = Path(__file__).parents[2]
CHECKS = "tests.scan.checks"
LEASE = "1s"  # so that survivors take over the slices of a killed process soon


class Scanned(NamedTuple):
    """What a scan came to."""

    code: int
    proof: ScanReport
    findings: list[dict[str, Any]]

    @property
    def codes(self) -> dict[str, int]:
        return dict(Counter(finding["code"] for finding in self.findings))

    def keys(self, code: str) -> set[str]:
        return {finding["key"] for finding in self.findings if finding["code"] == code}


def settings_of(source: Path | str, out: Path, **more: Any) -> ScanSettings:
    if "check" in more and ":" not in more["check"]:
        more["check"] = f"{CHECKS}:{more['check']}"
    if "fix" in more:
        more["fix"] = f"{CHECKS}:{more['fix']}"
    return ScanSettings(source=str(source), out=str(out), **more)


def scan(source: Path | str, out: Path, **more: Any) -> Scanned:
    """Scan in this process, as the command does."""
    settings = settings_of(source, out, **more)
    code = asyncio.run(ScanCommand(settings, json=False, quiet=True).run())
    return scanned(settings, code)


def scanned(settings: ScanSettings, code: int) -> Scanned:
    return Scanned(code, asyncio.run(read_report(settings)), read(settings.findings_path))


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def words(settings: ScanSettings, *more: str) -> Sequence[str]:
    """The command line of a scan."""
    given = [
        word
        for name in ("source", "against", "check", "fix", "key", "out", "store")
        if (value := getattr(settings, name)) is not None
        for word in (f"--{name}", str(value))
    ]
    return [sys.executable, "-m", "swath", "scan", *given, "--workers", str(settings.workers), *more]


def begin(settings: ScanSettings, *more: str, **variables: str) -> "subprocess.Popen[str]":
    env: Mapping[str, str] = environment(**variables)
    return subprocess.Popen(
        words(settings, "--lease", LEASE, *more),
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
