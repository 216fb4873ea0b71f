"""Findings: fixed, checked again, summed up; and whose file is whose."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import swath
from swath import UsageError
from swath.cli.scan_command import ScanCommand
from swath.files.append_file import AppendFile
from swath.files.errors import OutputBusy, OutputDamaged
from swath.scan import Finding, workspace
from swath.scan.counts import MAX_CODES, CounterNames, Counts, sum_counters
from swath.scan.finding import FindingEvent, LineContext, State, encode_line
from swath.scan.open_findings import pick_examples, read_findings
from swath.scan.output import FindingsOutput
from swath.scan.sources.tree import TreeSource
from tests.recorder import PATIENCE
from tests.scan.driving import Scanned, read, scan, settings_of


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "deep").mkdir(parents=True)
    for name in ("a", "b", "deep/c", "deep/stubborn", "deep/locked"):
        (root / name).write_bytes(b"")
    (root / "full").write_bytes(b"full")
    return root


def states(found: Scanned) -> dict[tuple[str, str], list[str]]:
    said: dict[tuple[str, str], list[str]] = {}
    for finding in found.findings:
        said.setdefault((finding["key"], finding["code"]), []).append(finding["state"])
    return said


@pytest.mark.parametrize("fix", ["fill", "fill_async"])
def test_a_fixed_record_is_checked_again(tree: Path, tmp_path: Path, fix: str) -> None:
    found = scan(tree, tmp_path / "out.jsonl", check="empty", fix=fix)
    assert states(found) == {
        ("a", "empty"): ["fixed"],
        ("b", "empty"): ["fixed"],
        ("deep/c", "empty"): ["fixed"],
        ("deep/stubborn", "empty"): ["open"],
        ("deep/locked", "empty"): ["open"],
        ("deep/locked", "fix-failed"): ["open"],
    }
    assert found.proof.open == {"empty": 2, "fix-failed": 1}
    assert found.proof.counts.fixed == {"empty": 3}
    assert (tree / "a").read_bytes() == b"full"
    assert found.code == 1


def test_a_recheck_goes_through_open_keys_only_and_has_the_last_word(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    first = scan(tree, out, check="empty")
    assert first.proof.open == {"empty": 5}
    (tree / "a").write_bytes(b"x")
    (tree / "b").unlink()
    (tree / "full").write_bytes(b"")  # was right when it was looked at: not a recheck's business
    second = scan(tree, out, check="empty", recheck=True)
    assert states(second)["a", "empty"] == ["open", "resolved"]
    assert states(second)["b", "empty"] == ["open", "resolved"]
    assert states(second)["deep/c", "empty"] == ["open", "open"]
    assert ("full", "empty") not in states(second)
    assert second.proof.open == {"empty": 3}
    assert (second.proof.counts.records, second.proof.counts.rechecked) == (6, 4)
    third = scan(tree, out, check="empty", fix="fill", recheck=True)
    assert states(third)["deep/c", "empty"] == ["open", "open", "fixed"]
    assert third.proof.open == {"empty": 2, "fix-failed": 1}
    for name in ("locked", "stubborn"):
        (tree / "deep" / name).write_bytes(b"x")
    last = scan(tree, out, check="empty", recheck=True)
    assert (last.code, last.proof.open, last.proof.clean) == (0, {}, True)
    assert scan(tree, out, check="empty", recheck=True).proof.clean  # nothing is left to look at


def test_a_recheck_that_was_interrupted_goes_on_without_the_option(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    scan(tree, out, check="empty")

    async def start(*, recheck: bool) -> int:
        settings = settings_of(tree, out, check="empty", recheck=recheck)
        async with swath.open(settings.store_url, create=False) as frontier:
            return await workspace._start_recheck(frontier, settings, TreeSource(str(tree)))

    assert asyncio.run(start(recheck=False)) == 0
    assert [asyncio.run(start(recheck=recheck)) for recheck in (True, False, True)] == [1, 1, 1]
    (tree / "a").write_bytes(b"x")
    ended = scan(tree, out, check="empty")
    assert states(ended)["a", "empty"] == ["open", "resolved"]
    assert (ended.proof.open, ended.proof.counts.rechecked) == ({"empty": 4}, 5)
    assert [asyncio.run(start(recheck=recheck)) for recheck in (False, True)] == [0, 2]


def test_a_recheck_wants_a_scan_before_it(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no scan with"):
        scan(tree, tmp_path / "out.jsonl", check="empty", recheck=True)
    assert list(tmp_path.iterdir()) == [tree]


def test_a_complete_scan_says_so_and_is_repeated_only_when_asked(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    first = scan(tree, out, check="empty")
    (tree / "new").write_bytes(b"")
    code = asyncio.run(ScanCommand(settings_of(tree, out, check="empty"), json=False, quiet=False).run())
    said = capsys.readouterr()
    assert "is complete and does not run again. Use --fresh to start over, or --recheck" in said.err
    assert f"to\t{first.proof.ended}" in said.out
    assert "  empty\t5   " in said.out
    assert (code, read(out)) == (1, first.findings)
    assert scan(tree, out, check="empty", fresh=True).proof.open == {"empty": 6}


def test_a_scan_prints_text_or_json_or_nothing(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(name: str, *, json: bool = False, quiet: bool = False) -> tuple[str, str]:
        settings = settings_of(tree, tmp_path / name, check="empty")
        assert asyncio.run(ScanCommand(settings, json=json, quiet=quiet).run()) == 1
        printed = capsys.readouterr()
        return printed.out, printed.err

    out, err = run("text.jsonl")
    assert err.startswith(f"the scan of {tree} starts ")
    assert "  empty\t5   " in out
    out, err = run("json.jsonl", json=True)
    assert ([json.loads(line)["event"] for line in out.splitlines()], err) == (["summary"], "")
    assert run("quiet.jsonl", quiet=True) == ("", "")


def test_another_scan_does_not_get_into_this_one(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    scan(tree, out, check="empty")
    with pytest.raises(UsageError, match=r"belongs to another scan: --check was tests.scan.checks:empty and is"):
        scan(tree, out, check="every")
    with pytest.raises(UsageError, match=r"--source was .*tree and is .*tmp"):
        scan("/tmp", out, check="empty")


def test_names_are_taken_as_they_are(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that mean something in a URL; and a directory is the same one from wherever it is named."""
    folder = tmp_path / "50%20 #1?x"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    found = scan("tree", folder / "out.jsonl", check="empty")
    assert found.proof.settings.store_path.exists()
    assert found.findings[0]["source"] == str(tree)
    monkeypatch.chdir(folder)
    assert scan("../tree", folder / "out.jsonl", check="empty").proof.complete
    with pytest.raises(UsageError, match="belongs to another scan: --source was"):
        scan("..", folder / "out.jsonl", check="empty")


def test_a_file_that_is_not_ours_is_left_alone(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text('{"precious": true}\n')
    with pytest.raises(UsageError, match="holds something other"):
        scan(tree, out, check="empty")
    assert set(tmp_path.iterdir()) == {tree, out}
    out.unlink()
    scan(tree, out, check="empty")
    out.write_text('{"precious": true}\n' * 100)
    with pytest.raises(UsageError, match="holds something other"):
        scan(tree, out, check="empty", recheck=True)
    assert "precious" in out.read_text()
    out.unlink()
    with pytest.raises(UsageError, match="it was deleted or truncated, or it is on another machine"):
        scan(tree, out, check="empty", recheck=True)
    assert not out.exists()


def _prepare(tree: Path, outs: list[Path], barrier: Barrier, tell: Callable[[list[str]], None]) -> None:
    marks = []
    for out in outs:
        barrier.wait(PATIENCE)
        try:
            marks.append(
                asyncio.run(workspace.prepare(settings_of(tree, out, check="empty"), TreeSource(str(tree)))).mark
            )
        except OutputBusy:
            marks.append("")
    tell(marks)


def test_of_two_scans_that_begin_at_once_the_file_has_the_mark_of_one(tree: Path, tmp_path: Path) -> None:
    """Or the one that works could not be gone on with: its lines would bear another mark than the frontier has."""
    context = get_context("spawn")
    barrier, told = context.Barrier(2), context.Queue()
    outs = [tmp_path / f"{number}.jsonl" for number in range(20)]
    processes = [context.Process(target=_prepare, args=(tree, outs, barrier, told.put)) for _ in range(2)]
    for process in processes:
        process.start()
    both = [told.get(timeout=PATIENCE) for _ in processes]
    for process in processes:
        process.join()
    assert [len({*marks} - {""}) for marks in zip(*both, strict=True)] == [1] * len(outs)


@pytest.mark.parametrize("end", [1, 15, 40, None])
def test_what_a_crash_left_in_the_file_is_its_own(tree: Path, tmp_path: Path, end: int | None) -> None:
    """Half of its first line, or a very long one: a scan goes on, and cuts it off."""
    out = tmp_path / "out.jsonl"
    settings, source = settings_of(tree, out, check="empty"), TreeSource(str(tree))
    prepared = asyncio.run(workspace.prepare(settings, source))
    context = LineContext(prepared.mark, str(tree), 0, "now")
    out.write_bytes(encode_line("a", FindingEvent(Finding("odd", "x" * 2_000_000), "open"), context)[:end])
    assert asyncio.run(workspace.prepare(settings, source)).mark == prepared.mark
    assert out.read_bytes() == b""
    context = context._replace(mark="another")
    out.write_bytes(encode_line("a", FindingEvent(Finding("odd"), "open"), context))
    with pytest.raises(UsageError, match="holds something other"):
        asyncio.run(workspace.prepare(settings, source))


@pytest.mark.parametrize("name", ["a b", "a%20b", "a?b", "a#b", "\udcff"])
def test_an_output_of_any_name_has_its_own_frontier(tree: Path, tmp_path: Path, name: str) -> None:
    assert scan(tree, tmp_path / f"{name}.jsonl", check="empty").proof.complete
    assert (tmp_path / f"{name}.jsonl.swath.db").exists()


def test_one_process_writes_to_a_file(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    other = AppendFile(out)
    with pytest.raises(OutputBusy, match="another process"):
        scan(tree, out, check="empty")
    other.close()
    assert scan(tree, out, check="empty").proof.complete


def test_a_file_that_is_closed_twice_closes_nothing_else(tmp_path: Path) -> None:
    file = AppendFile(tmp_path / "out.jsonl")
    file.close()
    with (tmp_path / "another").open("wb") as other:  # gets the descriptor that is free now
        file.close()
        other.write(b"kept")
    assert (tmp_path / "another").read_bytes() == b"kept"


def test_what_a_scan_that_ended_at_once_wrote_is_decided_on_by_the_store(tmp_path: Path) -> None:
    """Whoever closes the file may not have heard of the settlement that took place."""
    out = tmp_path / "out.jsonl"
    output = FindingsOutput(out, name="out.jsonl")
    output.restore({})
    ((move, *_),) = output.write([[b"one\n"]])
    output.close()
    output = FindingsOutput(out, name="out.jsonl")
    output.restore({move.name: move.new})
    assert out.read_bytes() == b"one\n"
    output.restore({})
    output.close()
    assert out.read_bytes() == b""


@pytest.mark.parametrize("name", ["findings", "at-12:30", "\udcff"])
def test_findings_as_parquet(tree: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # what begins with a slash is no URL
    out = Path(f"{name}.parquet")
    found = scan(tree, out, check="empty")
    rows = _rows(out)
    assert [row["key"] for row in rows] == [finding["key"] for finding in found.findings]
    assert {row["state"] for row in rows} == {"open"}
    (tree / "a").write_bytes(b"x")
    scan(tree, out, check="empty", recheck=True)
    assert len(_rows(out)) == 10


def _rows(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as file:
        return list(pq.read_table(file).to_pylist())


def test_parquet_that_cannot_be_written_is_said(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "findings.parquet"
    out.mkdir()
    with pytest.raises(UsageError, match=f"--out {out} cannot be written to: Is a directory"):
        scan(tree, out, check="empty")
    out.rmdir()
    scan(tree, out, check="empty")
    assert len(_rows(out)) == 5


def test_findings_that_are_not_as_they_were_written_are_refused(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    scan(tree, out, check="empty")
    lines = out.read_bytes()
    for damaged in (lines[:300] + b"\0" * 10 + lines[310:], lines[: lines.index(b"\n") + 1], lines[:-1]):
        out.write_bytes(damaged)
        with pytest.raises(OutputDamaged, match=f"{out} was changed or damaged"):
            list(read_findings(out, len(lines)))
    out.unlink()
    with pytest.raises(OutputDamaged, match=f"{out} was changed or damaged"):
        list(read_findings(out, len(lines)))


def test_a_file_that_is_changed_while_it_is_written_to(tmp_path: Path) -> None:
    output = FindingsOutput(tmp_path / "out.jsonl", name="out.jsonl")
    output.restore({})
    output.write([[b"one\n"]])
    output.keep()
    os.truncate(tmp_path / "out.jsonl", 2)
    with pytest.raises(OutputDamaged, match=r"is 2 bytes long, but"):
        output.write([[b"two\n"]])
    (tmp_path / "out.jsonl").write_bytes(b"one\n")
    (tmp_path / "out.jsonl").unlink()
    with pytest.raises(OutputDamaged, match=r"was deleted"):
        output.write([[b"two\n"]])
    output.close()


def test_every_line_says_what_it_is_about(tree: Path, tmp_path: Path) -> None:
    found = scan(tree, tmp_path / "out.jsonl", check="empty")
    line = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert line.keys() == {"key", "code", "message", "data", "state", "round", "time", "source", "scan"}
    assert line["source"] == str(tree)
    assert {finding["scan"] for finding in found.findings} == {line["scan"]}


def test_lines_that_were_not_settled_are_truncated(tmp_path: Path) -> None:
    """If a settlement is refused, the file goes back to the length that the store has."""
    output = FindingsOutput(tmp_path / "out.jsonl", name="out.jsonl")
    output.restore({})
    (moves,) = output.write([[b"one\n"]])
    committed = {move.name: move.new for move in moves}
    output.keep()
    first, second = output.write([[b"one\n"], [b"one\n", b"one\n"]])
    assert [move.old for move in second] == [move.new for move in first]
    output.restore(committed)
    assert (tmp_path / "out.jsonl").read_bytes() == b"one\n"
    (again,) = output.write([[b"one\n"]])
    assert again == first
    output.close()


def test_open_findings_are_right_with_more_codes_than_counters() -> None:
    """A finding is closed under the name that it was opened with, also after a restart."""
    counters: Counter[str] = Counter()

    def settle(**counts: Counter[str]) -> None:
        names = CounterNames("mark", counters)
        counters.update(names.to_counters(Counts(**counts)))  # type: ignore[arg-type]

    codes = [f"code {number}" for number in range(MAX_CODES + 100)]
    for code in codes:
        settle(opened=Counter({code: 2}))
    for code in reversed(codes):
        settle(closed=Counter({code: 1}))
    assert sum_counters(counters).open.total() == len(codes)
    for code in codes[100:]:
        settle(closed=Counter({code: 1}))
    assert sum_counters(counters).open == dict.fromkeys(codes[:100], 1)
    assert len(counters) <= 2 * (MAX_CODES + 1)


def test_one_item_has_no_more_codes_than_the_limit() -> None:
    names = CounterNames("one", {})
    counters = names.to_counters(Counts(opened=Counter({f"code {number}": 1 for number in range(MAX_CODES + 50)})))
    assert len(counters) == MAX_CODES + 1
    assert counters["scan.opened.one.(others)"] == 50
    assert names.to_counters(Counts(opened=Counter({"new": 1, "code 5": 1}))) == {
        "scan.opened.one.(others)": 1, "scan.opened.one.code 5": 1,
    }  # fmt: skip


def test_counters_of_other_outputs_and_of_the_user_are_kept_apart() -> None:
    counters = CounterNames("one", {}).to_counters(Counts(records=3, opened=Counter({"odd.even": 2})))
    assert counters == {"scan.records": 3, "scan.opened.one.odd.even": 2}
    other = CounterNames("two", counters).to_counters(Counts(records=1, closed=Counter({"odd.even": 1})))
    assert other == {"scan.records": 1, "scan.closed.two.(others)": 1}
    found = sum_counters({**counters, "pages": 7, "scanned.records": 9})
    assert (found.records, found.open) == (3, {"odd.even": 2})


def test_a_recheck_that_goes_on_has_the_same_items(tmp_path: Path) -> None:
    """What it has already written does not change what it is made of: an item that is done stays the same one."""
    path = tmp_path / "out.jsonl"

    def write(number: int, state: State, keys: range) -> None:
        context = LineContext("mark", "tree", number, "now")
        with path.open("ab") as file:
            file.writelines(encode_line(f"{key}", FindingEvent(Finding("empty"), state), context) for key in keys)

    write(0, "open", range(500))
    begun = list(workspace._plan_recheck(path, path.stat().st_size, 1, TreeSource("/")))
    assert [len(item.payload["keys"]) for item in begun] == [200, 200, 100]
    write(1, "resolved", range(200))
    assert list(workspace._plan_recheck(path, path.stat().st_size, 1, TreeSource("/"))) == begun
    second = list(workspace._plan_recheck(path, path.stat().st_size, 2, TreeSource("/")))
    assert [len(item.payload["keys"]) for item in second] == [200, 100]


def test_a_few_examples_of_each_code_are_shown() -> None:
    findings = [{"code": code, "key": f"{n}", "message": code} for n in range(5) for code in ("empty", "odd")]
    shown = pick_examples(findings)
    assert shown == {code: [("0", code), ("1", code), ("2", code)] for code in ("empty", "odd")}
