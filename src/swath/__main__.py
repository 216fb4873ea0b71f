"""`python -m swath` is the `swath` command."""

import sys

from swath.cli import main

if __name__ == "__main__":
    sys.exit(main())
