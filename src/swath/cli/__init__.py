"""The `swath` command: one module per command, and helpers that several commands share. It uses only the public API of
swath, and nothing imports it."""

import sys

from swath.cli.exit_codes import ExitCode

REQUIRED_PACKAGES = ("typer", "rich")


def main() -> int:
    """Run the command in `sys.argv` and return its exit code. If the `cli` extra is missing, say how to install it."""
    try:
        from swath.cli.app import run

        return run()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in REQUIRED_PACKAGES:
            raise
        print(f"swath: the command line needs {error.name}: pip install 'swath[cli]'", file=sys.stderr)
        return ExitCode.USAGE
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
