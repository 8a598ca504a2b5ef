"""``consistency debug``: a program under trace, and the first of its calls that diverges."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ..echo import echo
from ..options import FOLDER, command, option

FOLDER_OF_FAILURES = "reports/debug"


@command(
    short_help="Run a program of yours under trace; report the first call that diverges.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("program", metavar="PROGRAM")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
@click.option("--module", "-m", is_flag=True, help="PROGRAM is a module, as in python -m.")
@option("backends", help="Judge each call on this backend, too (repeatable).")
@click.option(
    "--keep-going", is_flag=True, help="Let the program run to its end, and count what differs."
)
@click.option(
    "--every-call",
    is_flag=True,
    help="Judge every call, not only the first two of a kind (shapes, dtypes, layouts).",
)
@option("case_timeout")
@option("tolerances")
@click.option(
    "--out",
    "-o",
    type=FOLDER,
    help=f"A new folder for failures, each in one of its own [default: {FOLDER_OF_FAILURES}].",
)
def debug(
    program: str, arguments: Sequence[str], module: bool, backends: Sequence[str],
    keep_going: bool, every_call: bool, case_timeout: float, tolerances: str | None,
    out: Path | None,
) -> None:  # fmt: skip
    """Run PROGRAM as Python would, with its ARGUMENTS, and report the first call of a torch
    operator that diverges: its line in the program, its module, its error.

    \b
    consistency debug train.py --epochs 1
    consistency debug --backend cuda train.py        each call again on the GPU
    consistency debug -m package.train --lr 0.1      as python -m package.train

    Nothing in the program is changed. What each call returned is compared with float64 on the same
    inputs, so that errors do not propagate: the report names the call that makes the error. The
    program ends there. Options of this command stand before PROGRAM.

    \b
    Exit status: 1 a call diverges · 2 bad usage · 3 no call could be judged
    else that of the program itself
    """
    from ...core.folders import unused_folder
    from ...training.trace.program import program_text, run_program

    for name in _own_options(arguments):
        echo(
            f"consistency: {name} was passed on to {program}; options of this command stand before "
            "the program",
            err=True,
        )
    out = out or unused_folder(Path(FOLDER_OF_FAILURES))
    run = run_program(
        program, arguments, module=module, backends=backends, keep_going=keep_going,
        every_call=every_call, out=out, tolerances=tolerances, case_timeout=case_timeout,
    )  # fmt: skip
    sys.stdout.flush()
    if run.problem:
        echo(run.problem, err=True)
    echo(program_text(run))
    if run.result is not None:
        sys.exit(1)
    if run.status:
        sys.exit(run.status)
    if not any(result.verdict.tested for result in run.session.results):
        sys.exit(3)


def _own_options(arguments: Sequence[str]) -> list[str]:
    """Long options of this command among the arguments of the program."""
    own = {name for each in debug.params for name in each.opts if name.startswith("--")}
    return [name for name in dict.fromkeys(a.partition("=")[0] for a in arguments) if name in own]
