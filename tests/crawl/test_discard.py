"""What is on disk when, while `--fresh` discards a crawl: a power cut may come at any time."""

import asyncio
from pathlib import Path

import pytest

from swath.crawl import discard, seeds, settings_file
from swath.crawl.archive import index, warc_index
from swath.crawl.settings import CrawlSettings
from swath.crawl.workspace import DISCARD_MARKER
from swath.files.replace_file import NEW


def test_the_marker_is_removed_when_everything_else_is_gone_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = CrawlSettings(out=str(tmp_path), store=f"sqlite:///{tmp_path}/frontier.db")
    stamp = "20231114221320123-00000-h~1"
    small = [index.FILE, settings_file.FILE, seeds.FILE, seeds.UNQUEUED_FILE]
    names = [*small, *(name + NEW for name in small), f"pages-{stamp}.jsonl.gz"]
    names += [f"swath-{stamp}.warc.gz{suffix}" for suffix in ("", warc_index.SUFFIX, warc_index.SUFFIX + NEW)]
    for name in [*names, "notes.txt"]:
        (tmp_path / name).write_bytes(b"")
    runs = tmp_path / f"{warc_index.RUNS_PREFIX}1"
    runs.mkdir()
    (runs / "run").write_bytes(b"")
    synced: list[set[str]] = []
    monkeypatch.setattr(
        discard, "sync_directory", lambda directory: synced.append({path.name for path in directory.iterdir()})
    )
    asyncio.run(discard.discard_crawl(settings))
    left = {"notes.txt"} | {path.name for path in tmp_path.iterdir() if path.suffix == ".lock"}
    assert synced == [left | {DISCARD_MARKER}, left]
    assert {path.name for path in tmp_path.iterdir()} == left
