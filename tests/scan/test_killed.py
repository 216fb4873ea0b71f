"""Scans that are killed at any moment, and several at once: every finding once, none missing, counts true."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from swath.scan.settings import ScanSettings
from tests.crash.children import stop
from tests.scan.driving import begin, scanned, settings_of
from tests.scan.test_tree import grow

SEED = int(os.environ.get("SWATH_SEED", "4"))
END_SECONDS = 60.0


def wait(condition: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + END_SECONDS
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.005)


def length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def end(process: "subprocess.Popen[str]", code: int) -> str:
    out, err = process.communicate(timeout=END_SECONDS)
    assert process.returncode == code, err
    return out


def test_a_scan_that_is_stopped_blames_no_check(tmp_path: Path) -> None:
    """The check could not return while the process stood still."""
    grow(tmp_path / "tree", folders=1, files=1)
    runs, returns = tmp_path / "runs", tmp_path / "returns"
    settings = settings_of(tmp_path / "tree", tmp_path / "out.jsonl", check="waiting", workers=1)
    process = begin(settings, "--timeout", "3s", "--lease", "60s", RUNS=str(runs), RETURN=str(returns))
    wait(runs.exists)
    time.sleep(1.2)  # the process looks at its checks four times in each timeout
    stop(process.pid)
    time.sleep(3.3)  # the process stands still for longer than a check may take
    process.send_signal(signal.SIGCONT)
    time.sleep(0.3)  # and then looks at its checks
    returns.touch()
    end(process, 0)
    assert scanned(settings, 0).findings == []


def test_a_scan_that_is_killed_again_and_again(tmp_path: Path) -> None:
    print(f"SWATH_SEED={SEED} repeats this")
    chance = random.Random(SEED)
    keys = grow(tmp_path / "tree", folders=40, files=100)
    settings = settings_of(tmp_path / "tree", tmp_path / "out.jsonl", check="slowly", workers=3)
    killed = 0
    for _ in range(3):
        process = begin(settings)
        before = length(settings.findings_path)
        more = before + chance.randint(1, 100_000)
        wait(lambda p=process, m=more: length(settings.findings_path) >= m or p.poll() is not None)  # type: ignore[misc]
        time.sleep(chance.random() * 0.02)
        killed += process.poll() is None
        process.kill()
        process.communicate()
    assert killed
    end(begin(settings), 1)
    check_whole(settings, keys)
    process = begin(settings, "--recheck")
    before = length(settings.findings_path)
    wait(lambda: length(settings.findings_path) > before or process.poll() is not None)
    process.kill()
    process.communicate()
    end(begin(settings, "--recheck"), 1)  # goes on with the same one
    found = scanned(settings, 1)
    assert Counter(finding["key"] for finding in found.findings) == Counter(dict.fromkeys(keys, 2))
    assert (found.proof.round, found.proof.counts.rechecked) == (1, len(keys))
    assert found.proof.open == {"seen": len(keys)}


def check_whole(settings: ScanSettings, keys: set[str]) -> None:
    found = scanned(settings, 1)
    assert Counter(finding["key"] for finding in found.findings) == Counter(keys)
    assert found.proof.counts.records == len(keys)
    assert found.proof.open == {"seen": len(keys)}
    assert found.proof.complete


def test_processes_share_a_file_and_one_of_them_dies(tmp_path: Path) -> None:
    """Each has an output of its own; together they hold everything once, and each knows the sum."""
    source = tmp_path / "records.jsonl"
    with source.open("w") as file:
        file.writelines(f'{{"n": {number}, "filling": "{"x" * 300}"}}\n' for number in range(70_000))
    store = f"sqlite:///{tmp_path}/shared.db"
    outs = [
        settings_of(source, tmp_path / f"out{number}.jsonl", check="odd", store=store, workers=2) for number in range(3)
    ]
    processes = [begin(settings) for settings in outs]
    wait(lambda: length(outs[0].findings_path) > 0 or processes[0].poll() is not None)
    processes[0].send_signal(signal.SIGKILL)
    processes[0].communicate()
    for process in processes[1:]:
        end(process, 1)
    end(begin(outs[0]), 1)  # what the one that died had written and not settled is cut off
    found = [scanned(settings, 1) for settings in outs]
    numbers = [finding["data"]["n"] for one in found for finding in one.findings]
    assert sorted(numbers) == list(range(1, 70_000, 2))
    for one in found:
        assert one.proof.counts.records == 70_000
        assert one.proof.counts.bytes == source.stat().st_size
        assert one.proof.open == {"odd": 35_000}
    assert sum(bool(one.findings) for one in found) > 1


def test_ctrl_c_ends_politely_and_says_how_to_go_on(tmp_path: Path) -> None:
    keys = grow(tmp_path / "tree", folders=20, files=100)
    settings = settings_of(tmp_path / "tree", tmp_path / "out.jsonl", check="slowly", workers=1)
    process = begin(settings)
    wait(lambda: length(settings.findings_path) > 0 or process.poll() is not None)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=END_SECONDS)
    assert process.returncode == 130, err
    assert "Run the same command again to resume" in err
    out = end(begin(settings, "--json"), 1)
    assert '"complete": true' in out
    check_whole(settings, keys)
