"""A locale that orders texts otherwise than by their bytes, for collations of PostgreSQL and for sorting here."""

import fcntl
import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

NAME = "de_DE.UTF-8"
DEFINITIONS = Path("/usr/share/i18n/locales/de_DE")


@functools.cache
def german() -> str:
    """The name of a German locale that this system has; made on Debian where it has none and we are root."""
    with Path(tempfile.gettempdir(), f"swath-locale-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the tests run in several processes
        if not _there():
            _make()
    return NAME


def _there() -> bool:
    """Asked in another process: one that has looked in vain does not look again."""
    look = f"import locale; locale.setlocale(locale.LC_COLLATE, {NAME!r})"
    return subprocess.run([sys.executable, "-c", look], capture_output=True, check=False).returncode == 0


def _make() -> None:
    if os.geteuid() != 0 or not Path("/etc/debian_version").exists():
        raise RuntimeError(
            f"the tests of collations need the locale {NAME}; on Debian or Ubuntu run: "
            f"sudo apt-get install locales && sudo localedef -i de_DE -f UTF-8 {NAME}"
        )
    if not DEFINITIONS.exists():
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        _run("apt-get", "update", "-qq", env=quiet)
        _run("apt-get", "install", "-y", "-qq", "locales", env=quiet)
    # Beside the archive of locales: a process that began without one never looks for it again.
    _run("localedef", "--no-archive", "-i", "de_DE", "-f", "UTF-8", NAME, env=dict(os.environ))


def _run(*command: str, env: dict[str, str]) -> None:
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed with {done.returncode}: {done.stdout}{done.stderr}")
