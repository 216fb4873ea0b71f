"""Replace a file inside a tree at once: readers, a crash and a full disk leave the old content or the new one.

Other processes may change the tree at any time. So every directory is opened in the one above it, without following
links, and all names are looked up in an open directory: a directory that became a link leads nowhere.
"""

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b

# A killed process leaves its temporary file behind. The name follows from that of the file, so that the next write
# of the same file finds and removes it.
_TEMPORARY = ".swath-{}.new"
_IS_TEMPORARY = re.compile(r"\.swath-[0-9a-f]{16}\.new")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe must not block
_UNSUPPORTED = {errno.ENOTSUP, errno.ENODATA, errno.EINVAL, errno.EPERM, errno.EACCES}


def is_temporary(name: str) -> bool:
    """Return whether a file is a temporary one of this module."""
    return name.startswith(".swath-") and _IS_TEMPORARY.fullmatch(name) is not None


def replace_in_tree(root: str, path: str, content: bytes) -> None:
    """Replace the content of a file. Keep its mode, owner and extended attributes; separate it from its hard links.

    If the file is a link, replace its target, which must be inside the tree. Raise OSError if this process may not
    write to the file, or not keep its owner.
    """
    try:
        try:
            _replace(root, path, content)
        except OSError as error:
            if error.errno != errno.ELOOP or not os.path.islink(os.path.join(root, path)):
                raise
            _replace(root, _resolve_link(root, path), content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def _replace(root: str, path: str, content: bytes) -> None:
    *folders, name = path.split("/")
    with _open_folder(root, folders) as folder, _open_file(name, folder) as before:
        temporary = _TEMPORARY.format(blake2b(os.fsencode(name), digest_size=8).hexdigest())
        made = _create_locked(temporary, folder)
        try:
            try:
                _write(made, content)
                _copy_metadata(before, made)
                os.fsync(made)
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                os.unlink(temporary, dir_fd=folder)
                raise
        finally:
            os.close(made)
        os.fsync(folder)


def _resolve_link(root: str, path: str) -> str:
    """Return the path of a link's target in the tree."""
    top = os.path.realpath(root)
    target = os.path.relpath(os.path.realpath(os.path.join(top, path)), top)
    if target.split("/", 1)[0] == "..":
        raise OSError(errno.EXDEV, "the link leads out of the source, where nothing is changed")
    return target


@contextmanager
def _open_folder(root: str, names: Sequence[str]) -> Iterator[int]:
    """Open a directory below the root without following links. The root itself may be a link."""
    if not {"", ".", ".."}.isdisjoint(names):
        raise OSError(errno.EINVAL, "not a path inside the source")
    folder = os.open(root, _FOLDER)
    try:
        for name in names:
            above, folder = folder, os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(above)
        yield folder
    finally:
        os.close(folder)


@contextmanager
def _open_file(name: str, folder: int) -> Iterator[int]:
    """Open a regular file as if to write to it, so that the system checks whether this process may."""
    file = os.open(name, os.O_WRONLY | _FILE, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        yield file
    finally:
        os.close(file)


def _create_locked(name: str, folder: int) -> int:
    """Create a file that no other process uses, under a lock that lasts until it is closed."""
    while True:
        try:
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o600, dir_fd=folder)
        except FileExistsError:
            _remove_leftover(name, folder)
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _has_name(file, name, folder):  # not removed between its creation and the lock
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _remove_leftover(name: str, folder: int) -> None:
    """Remove what a killed process left. Wait for a process that is still writing it."""
    with suppress(FileNotFoundError):
        file = os.open(name, os.O_RDONLY | _FILE, dir_fd=folder)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _has_name(file, name, folder):
                os.unlink(name, dir_fd=folder)
        finally:
            os.close(file)


def _has_name(file: int, name: str, folder: int) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _write(file: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(file, left) :]


def _copy_metadata(before: int, after: int) -> None:
    """Copy owner, extended attributes (among them access control lists) and mode, in this order."""
    found = os.fstat(before)
    made = os.fstat(after)
    if (found.st_uid, found.st_gid) != (made.st_uid, made.st_gid):
        os.fchown(after, found.st_uid, found.st_gid)
    try:
        names = os.listxattr(before)
        for name in set(os.listxattr(after)) - set(names):  # inherited from the directory
            os.removexattr(after, name)
        for name in names:
            if name != "security.capability":  # a write would have removed it too
                os.setxattr(after, name, os.getxattr(before, name))
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    os.fchmod(after, stat.S_IMODE(found.st_mode))
