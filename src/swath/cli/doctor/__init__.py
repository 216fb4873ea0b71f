"""`swath doctor`: what is wrong with a store, its machine and its settings, or will be.

Each module has one topic: probes that read facts, and functions that decide from facts what is a problem.
"""

from typing import Annotated

import typer

from swath import Problem, mask_password
from swath.cli.command import run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.formatting import pluralize
from swath.cli.options import JSONOption, StoreArgument, StoreOption
from swath.cli.terminal import print_json, print_line


def doctor(
    argument: StoreArgument = None,
    store: StoreOption = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", min=1, show_default=False, help="Number of workers that will run"),
    ] = None,
    dns_servers: Annotated[
        list[str] | None,
        typer.Option("--dns-servers", metavar="ADDRESS[:PORT]", help="Name server to check, as in `swath crawl`"),
    ] = None,
    json: JSONOption = False,
) -> None:
    """Look for problems of a store, its machine and its settings, and say what to do about each.

    Exits with 1 if there is a problem. With --workers, also checks whether the machine and the lanes suffice for them.

    Examples:
        swath doctor crawl/
        swath doctor work.db
        swath doctor postgresql://user@host/app --workers 500
    """
    store = argument or store
    run_command(store, _doctor(store, workers, dns_servers or [], json))


async def _doctor(store: str | None, workers: int | None, dns_servers: list[str], json: bool) -> int:
    from swath.cli.doctor.examination import examine_store

    url, problems = await examine_store(store, workers=workers, dns_servers=dns_servers)
    name = mask_password(url)
    if json:
        found = [{"name": one.name, "text": one.text, "advice": one.advice} for one in problems]
        print_json({"store": name, "ok": not problems, "problems": found})
    else:
        for problem in problems:
            _print_problem(problem)
        print_line(f"{name}: {pluralize(len(problems), 'problem')}" if problems else f"{name}: no problem was found")
    return ExitCode.NEGATIVE if problems else ExitCode.OK


def _print_problem(problem: Problem) -> None:
    print_line(f"{problem.name}: {problem.text}")
    print_line(f"    what to do: {problem.advice}")
