"""Problems of the machine: descriptors, disk space, and SQLite on a network file system."""

import os
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from swath import Problem
from swath.cli.formatting import format_size, pluralize

MOUNTS = Path("/proc/self/mountinfo")
# File systems whose locks or shared memory do not hold over the network, which SQLite's WAL needs.
NETWORK_TYPES: Final = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs",
    "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb3", "smbfs", "virtiofs",
})  # fmt: skip
MIN_FREE_BYTES = 100_000_000
DESCRIPTORS_PER_WORKER, RESERVED = 2, 128  # of a crawl, as in `swath.crawl.fd_limit`


class Mount(NamedTuple):
    """A line of the mount table."""

    point: str
    type: str


class Growth(NamedTuple):
    """A directory that a job writes to: what it holds, what is free, and how much of the job is left."""

    path: str
    used_bytes: int
    free_bytes: int
    settled: int
    waiting: int


def read_mounts(path: Path = MOUNTS) -> Sequence[Mount]:
    """Return the mounted file systems; none if the system does not list them."""
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    mounts = []
    for line in lines:
        words = line.split(" ")
        if "-" in words[6:] and len(words) > words.index("-", 6) + 1:
            mounts.append(Mount(_decode(words[4]), words[words.index("-", 6) + 1]))
    return mounts


def _decode(name: str) -> str:
    """Decode the octal escapes that the kernel writes for spaces, tabs, newlines and backslashes."""
    for escaped, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        name = name.replace(escaped, character)
    return name


def check_file_system(path: str, mounts: Sequence[Mount]) -> Iterator[Problem]:
    """Yield a problem if a SQLite file is on a network file system."""
    real = os.path.realpath(path)
    above = [mount for mount in mounts if _is_below(real, mount.point)]
    if above and (found := max(above, key=lambda mount: len(mount.point))).type in NETWORK_TYPES:
        yield Problem(
            "network-file-system",
            f"{path} is on a network file system ({found.type} at {found.point}), where SQLite may lose data if two "
            "machines use the file",
            "move the file to a local disk, or use PostgreSQL for several machines",
        )


def _is_below(path: str, point: str) -> bool:
    return path == point or path.startswith(point.rstrip("/") + "/")


def measure_growth(path: Path, *, settled: int, waiting: int) -> Growth:
    """Measure a directory with the files of a job, or the file of a store and the files beside it."""
    files = path.iterdir() if path.is_dir() else path.parent.glob(f"{path.name}*")
    used = sum(one.stat().st_size for one in files if one.is_file())
    found = os.statvfs(path)
    return Growth(str(path), used, found.f_bavail * found.f_frsize, settled, waiting)


def check_disk(growth: Growth) -> Iterator[Problem]:
    """Yield a problem if the disk is nearly full, or if the rest of the job does not fit on it."""
    free = format_size(growth.free_bytes)
    if growth.free_bytes < MIN_FREE_BYTES:
        yield Problem("disk", f"the disk of {growth.path} has only {free} free", "free some space")
        return
    needed = growth.used_bytes * growth.waiting // growth.settled if growth.settled else 0
    if needed > growth.free_bytes:
        yield Problem(
            "disk",
            f"the disk of {growth.path} has {free} free, and the {pluralize(growth.waiting, 'item')} that wait will "
            f"take about {format_size(needed)}",
            "free some space, or move the job to a larger disk; a job waits while its disk is full",
        )


def check_descriptors(hard_limit: int, *, workers: int) -> Iterator[Problem]:
    """Yield a problem if a process with so many workers may not open enough files."""
    needed = workers * DESCRIPTORS_PER_WORKER + RESERVED
    if hard_limit < needed:
        yield Problem(
            "descriptors",
            f"this user may open {hard_limit:,} files per process, and {pluralize(workers, 'worker')} of a crawl need "
            f"{needed:,}",
            f"run `ulimit -n {needed}` first, set LimitNOFILE={needed} in a systemd unit, or use fewer --workers",
        )


def read_hard_limit() -> int:
    """Return how many files a process may open at most."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return 1 << 62 if hard == resource.RLIM_INFINITY else hard
