"""Write a whole file so that readers, and a crash, see either the old content or the new one."""

import os
from collections.abc import Iterable
from pathlib import Path

NEW = ".new"  # suffix while the file is written


def replace_file(path: Path, lines: Iterable[str]) -> None:
    """Write lines with their line breaks to a temporary file on disk, and then rename it."""
    made = path.with_name(path.name + NEW)
    try:
        with made.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        if made.is_file():
            made.unlink()
        raise
    made.replace(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
