"""The `swath` command: one module per command, thin over Frontier and insight. Nothing imports this package."""

import sys

from swath.cli.exit_codes import ExitCode

EXTRA = ("typer", "rich")


def main() -> int:
    """Run the command that `sys.argv` names and return its exit code. Without the extra, say how to get it."""
    try:
        from swath.cli.app import run

        return run()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in EXTRA:
            raise
        print(f"swath: the command line needs {error.name}: pip install 'swath[cli]'", file=sys.stderr)
        return ExitCode.USAGE
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
