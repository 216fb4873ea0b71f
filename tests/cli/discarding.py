"""As a program: `swath` that kills itself at the step of --fresh that the first argument names."""

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import swath
from swath.cli.app import run


def die_at(step: int) -> None:
    """Let this process kill itself before it deletes the frontier (0), or before it removes a file (1, 2, …)."""
    steps = count()
    delete, unlink = swath.delete, Path.unlink

    def reach_step() -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted_unlink(path: Path, missing_ok: bool = False) -> None:
        reach_step()
        unlink(path, missing_ok=missing_ok)

    async def counted_delete(url: str) -> None:
        reach_step()
        await delete(url)
        set_attribute(Path, "unlink", counted_unlink)

    set_attribute(swath, "delete", counted_delete)


set_attribute: Callable[[object, str, object], None] = setattr

if __name__ == "__main__":
    die_at(int(sys.argv.pop(1)))
    sys.exit(run())
