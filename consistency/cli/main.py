"""The ``consistency`` command: a thin front on the engine. Our errors become one line and exit
status 2."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import click

from ..core.startup_env import let_waiting_threads_sleep
from ..core.version import __version__
from ..errors import ConsistencyError, UsageError, did_you_mean
from .commands.bisect import bisect
from .commands.calibrate import calibrate
from .commands.corpus import corpus
from .commands.diff import diff
from .commands.expect import expect
from .commands.explain import explain
from .commands.fingerprint import fingerprint
from .commands.judge import judge
from .commands.listing import backends, operators
from .commands.matrix import matrix
from .commands.model import model
from .commands.pack import pack
from .commands.query import query
from .commands.record import record
from .commands.report import report
from .commands.repro import repro
from .commands.run import run
from .commands.sweep import sweep
from .options import INTERRUPTED
from .usage_hints import COMMANDS, told

EXIT = """\b
Exit status: 0 consistent · 1 a verdict fails · 2 bad usage or configuration
3 nothing failed, but nothing was tested, or not on a backend that was asked for"""
BROKEN_PIPE = 141  # as shells report SIGPIPE
# A group without a command, such as `consistency corpus`; older versions of click show the help
# themselves.
_HELP_INSTEAD: tuple[type[Exception], ...] = tuple(
    filter(None, [getattr(click.exceptions, "NoArgsIsHelpError", None)])
)


class _Group(click.Group):
    """Commands in the order of their use; unknown ones get a suggestion; every error is one
    line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if command is None:
            hint = did_you_mean(cmd_name, self.list_commands(ctx), COMMANDS)
            raise UsageError(
                f"there is no command {cmd_name!r:.80}{hint or '; `consistency --help` lists them'}"
            )
        return command

    def invoke(self, ctx: click.Context) -> Any:
        _any_encoding()
        let_waiting_threads_sleep()
        try:
            return super().invoke(ctx)
        except ConsistencyError as error:
            click.echo(f"consistency: {error}", err=True)
            ctx.exit(2)
        except click.UsageError as error:
            if isinstance(error, _HELP_INSTEAD):
                click.echo(error.format_message(), err=True)
            else:
                click.echo(
                    told(error, f"{ctx.command_path} {ctx.invoked_subcommand or ''}".strip()),
                    err=True,
                )
            ctx.exit(2)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:  # `consistency … | head`
            os.dup2(
                os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
            )  # or Python complains when it flushes at exit
            ctx.exit(BROKEN_PIPE)


def _any_encoding() -> None:
    """Characters such as ✓ must not end a run on a stream that cannot encode them; Windows pipes
    and files get UTF-8."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            redirected = (
                os.name == "nt" and not stream.isatty() and "PYTHONIOENCODING" not in os.environ
            )
            stream.reconfigure(encoding="utf-8" if redirected else None, errors="backslashreplace")


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT)
@click.version_option(__version__, prog_name="consistency")
def main() -> None:
    """Does the same PyTorch operator give the same numbers on every backend?

    Draws inputs for each operator, runs them on every backend, and judges each result against
    float64 in one unit, × budget: below 1 is rounding, above is a divergence, shown with the
    command that repeats it.

    \b
    consistency run                          all that is available here, in two or three minutes
    consistency run matmul 'nn.functional.*' --backend cpu --backend cuda
    consistency backends                     what is available, and why not
    consistency operators --family pooling   what is covered
    """


for command in (
    run, backends, operators, repro, report, bisect, sweep, explain, fingerprint, model, diff,
    expect, matrix, corpus, query, pack,
    record, judge, calibrate,
):  # fmt: skip
    main.add_command(command)
