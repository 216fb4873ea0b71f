"""A scan whose findings fill the disk waits, and finds the same when there is room."""

import json
from pathlib import Path

from tests.cli.running import running
from tests.small_disk import mount_small_disk

RECORDS = 4_000
LEFT = 100_000  # bytes; the findings need several times as many


def test_a_scan_waits_until_the_disk_of_its_findings_has_room(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import swath.scan\ndef check(record):\n    return swath.scan.Finding('odd', 'x' * 200)\n"
    )
    (tmp_path / "rows.jsonl").write_text("".join(f'{{"id": {number}}}\n' for number in range(RECORDS)))
    with mount_small_disk(tmp_path / "disk") as disk:
        findings = disk.path / "findings.jsonl"
        words = ("scan", "--source", f"{tmp_path}/rows.jsonl", "--check", "mine:check", "--out", str(findings))
        store = f"sqlite:///{tmp_path}/work.db"
        disk.fill(leave=LEFT)
        with running(*words, "--store", store, "--json", cwd=tmp_path) as scan:
            scan.says('"disk full"', f"--out {findings} cannot be written to: No space left on device. Make room")
            disk.clear()
            assert scan.ends() == 1, "there are findings"
        lines = [json.loads(line) for line in findings.read_text().splitlines()]
    assert len(lines) == len({line["key"] for line in lines}) == RECORDS
