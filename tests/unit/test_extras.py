"""The bare install: what works without any extra, and what says which one it needs."""

import subprocess
import sys
import textwrap
from pathlib import Path

import swath

SOURCE = Path(swath.__file__).parents[1]
TIMEOUT = 60


def bare(script: str, *arguments: str) -> str:
    """The output of a program that has the standard library and swath, and nothing else."""
    prelude = """
        import importlib.util, sys
        sys.path.append(sys.argv.pop(1))
        for name in ("psycopg", "typer", "rich", "pycurl", "zstandard", "fsspec", "pyarrow", "uvloop"):
            assert importlib.util.find_spec(name) is None, name
    """
    return run("-I", "-S", "-c", textwrap.dedent(prelude) + textwrap.dedent(script), str(SOURCE), *arguments)


def run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_bare_install_works_on_sqlite(tmp_path: Path) -> None:
    script = """
        import asyncio, swath

        async def handler(item):
            return item.done(result=len(item.key))

        async def main(url):
            async with swath.open(url) as frontier:
                assert await frontier.add(["a", "b", "c"]) == 3
                claim = await frontier.claim(1)
                await claim.settle([claim.items[0].done(discovered=["d"])])
                await frontier.run(handler)
                status = await frontier.status()
                print(status.done, status.waiting, await frontier.explain("d"))

        asyncio.run(main(sys.argv[1]))
    """
    out = bare(script, f"sqlite:///{tmp_path}/work.db")
    assert out.startswith("4 0 d was done")


def test_the_bare_install_works_without_an_event_loop(tmp_path: Path) -> None:
    script = """
        import swath.sync

        with swath.sync.open(sys.argv[1]) as frontier:
            assert frontier.add(["a", "b", "c"]) == 3
            claim = frontier.claim(1)
            claim.settle([claim.items[0].done(discovered=["d"])])
            frontier.run(lambda item: item.done())
            print(frontier.status().done, frontier.status().waiting)
    """
    assert bare(script, f"sqlite:///{tmp_path}/work.db") == "4 0\n"


def test_without_psycopg_it_says_what_to_install() -> None:
    script = """
        import sys
        sys.modules["psycopg"] = None

        import asyncio, swath, swath.sync
        from swath import migrate

        async def main():
            async with swath.open("postgresql://nobody@nowhere/nothing"):
                pass

        for call in (
            lambda: asyncio.run(main()),
            lambda: swath.sync.open("postgresql://nobody@nowhere/nothing"),
            lambda: asyncio.run(migrate("postgresql://nobody@nowhere/nothing")),
        ):
            try:
                call()
            except swath.MissingExtra as error:
                print(error)
    """
    message = "PostgreSQL needs psycopg: pip install 'swath[postgres]'\n"
    assert run("-c", textwrap.dedent(script)) == 3 * message
