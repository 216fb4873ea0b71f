"""Draw docs/images/crawl-panel.svg: the live panel of a crawl of the demo web, as a terminal shows it. Needs tmux."""

import io
import re
import shlex
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "images" / "crawl-panel.svg"
COLUMNS, LINES = 100, 30
SECONDS = 12  # of crawling before the picture is taken
TOP_LEFT, BOTTOM_LEFT = "╭", "╰"


def main() -> int:
    session = f"swath-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory() as folder:
        crawl = [sys.executable, str(ROOT / "examples" / "demo_crawl.py"), "--out", "demo-crawl"]
        start = ["tmux", "new-session", "-d", "-s", session, "-x", str(COLUMNS), "-y", str(LINES)]
        subprocess.run([*start, f"cd {folder} && {shlex.join(crawl)}"], check=True)
        try:
            time.sleep(SECONDS)
            screen = subprocess.run(
                ["tmux", "capture-pane", "-p", "-e", "-t", session], check=True, capture_output=True, text=True
            ).stdout
        finally:
            subprocess.run(["tmux", "kill-session", "-t", session], check=False)
    lines = screen.splitlines()
    first = next(number for number, line in enumerate(lines) if TOP_LEFT in line)
    last = next(number for number, line in enumerate(lines) if BOTTOM_LEFT in line)
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi("$ make crawl\n" + "\n".join(lines[first : last + 1])))
    TARGET.parent.mkdir(exist_ok=True)
    svg = console.export_svg(title="swath crawl", unique_id="swath")
    TARGET.write_text(re.sub(r"@font-face \{.*?\}\n", "", svg, flags=re.DOTALL))  # readers load no font from elsewhere
    return 0


if __name__ == "__main__":
    sys.exit(main())
