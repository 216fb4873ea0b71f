"""Completion in real shells. bash is always tested; zsh and fish where they are installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from swath.cli.app import COMMANDS
from swath.cli.completion import Shell
from tests.cli.conftest import COMMAND, TIMEOUT, environment, run_swath
from tests.cli.test_start import loaded
from tests.cli.test_terminal import Terminal

SHELLS = [shell for shell in Shell if shell == Shell.bash or shutil.which(shell)]

# Ask the function that the script defines, as Tab does.
ASK_BASH = r"""
source "$1"; shift
COMP_WORDS=(swath "$@"); COMP_CWORD=$(($# )); COMPREPLY=()
_swath_completion swath
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `swath` and the scripts of all shells."""
    folder = tmp_path_factory.mktemp("tools")
    (folder / "swath").write_text(f'#!/bin/sh\nexec {COMMAND[0]} -m swath "$@"\n')
    (folder / "swath").chmod(0o755)
    for shell in Shell:
        (folder / shell).write_text(run_swath("completion", shell).out)
    return folder


def ask_bash(tools: Path, *words: str, cwd: Path | None = None) -> list[str]:
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK_BASH, "bash", str(tools / "bash"), *words],
        env={**environment(), "PATH": f"{tools}:/usr/bin:/bin"},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    # Outside of a completion, bash says that compopt has nothing to work on.
    assert all("compopt" in line for line in done.stderr.splitlines()), done.stderr
    return done.stdout.split()


def test_bash_completes_commands_options_choices_and_files(tools: Path, tmp_path: Path) -> None:
    (tmp_path / "crawl").mkdir()
    assert ask_bash(tools, "") == list(COMMANDS)
    assert ask_bash(tools, "sta") == ["status"]
    assert ask_bash(tools, "lanes", "un") == ["unblock"]
    assert "--watch" in ask_bash(tools, "status", "--")
    assert ask_bash(tools, "crawl", "--scope", "p") == ["page", "prefix"]
    assert ask_bash(tools, "crawl", "--scope", "=", "p") == ["page", "prefix"]  # as bash divides --scope=p
    assert ask_bash(tools, "status", "cr", cwd=tmp_path) == ["crawl"]
    assert ask_bash(tools, "dead", "--store", "c", cwd=tmp_path) == ["crawl"]
    assert ask_bash(tools, "explain", "", cwd=tmp_path) == []  # a key


def test_tab_completes_a_word_in_bash(tools: Path) -> None:
    terminal = Terminal(
        command=["bash", "--norc", "--noprofile", "-i"], store="", PATH=f"{tools}:/usr/bin:/bin", INPUTRC="/dev/null"
    )
    terminal.type(f"source {tools / 'bash'}; echo re''ady\n")
    terminal.read_until(lambda text: "ready" in text)
    terminal.type("swath lanes unb\t")
    terminal.read_until(lambda text: "swath lanes unblock " in text)
    terminal.process.kill()
    terminal.finish()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_parses(tools: Path, shell: Shell) -> None:
    subprocess.run([shell, "-n", str(tools / shell)], check=True, timeout=TIMEOUT)


def test_an_unknown_shell_is_refused() -> None:
    result = run_swath("completion", "tcsh")
    assert (result.code, result.out) == (2, "")
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in result.err


def test_completing_loads_no_other_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody waits for each Tab."""
    monkeypatch.setenv("_SWATH_COMPLETE", "1")
    for words in (["st"], ["pause", "--"]):
        assert not loaded(*words) & {"swath.crawl", "swath.backfill", "swath.scan"}
