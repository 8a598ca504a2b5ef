"""The ``consistency`` command: a thin front on the engine. Our errors, and those of the operating
system, become one line and exit status 2."""

from __future__ import annotations

import sys
from typing import Any

import click

from ..core import interrupts
from ..core.process_setup import let_waiting_threads_sleep, postpone_garbage
from ..core.version import __version__
from ..errors import ConsistencyError, OutputError, UsageError, did_you_mean
from . import streams
from .commands.bisect import bisect
from .commands.calibrate import calibrate
from .commands.check_onnx import check_onnx
from .commands.corpus import corpus
from .commands.debug import debug
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
from .options import ARGUMENTS, INTERRUPTED
from .usage_hints import COMMANDS, told

EXIT = """\b
Exit status: 0 consistent · 1 a verdict fails · 2 bad usage or configuration
3 nothing failed, but nothing was tested, or not on a backend that was asked for"""
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
            if cmd_name == "watch":
                raise UsageError(
                    "`watch` is a function of Python, consistency.watch(); on the command line: "
                    "consistency debug PROGRAM"
                )
            hint = did_you_mean(cmd_name, self.list_commands(ctx), COMMANDS)
            raise UsageError(
                f"there is no command {cmd_name!r:.80}{hint or '; `consistency --help` lists them'}"
            )
        return command

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        streams.prepare()
        try:
            return super().make_context(*args, **more)
        except OSError as error:  # of --help and --version
            sys.exit(streams.status_of(streams.failed_write(error)))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        let_waiting_threads_sleep()
        postpone_garbage()
        try:
            try:
                with interrupts.watched():
                    return super().invoke(ctx)
            finally:
                sys.stdout.flush()  # or Python would do so later, and ignore that it fails
        except OutputError as error:
            ctx.exit(streams.status_of(error))
        except ConsistencyError as error:
            streams.told(f"consistency: {error}")
            ctx.exit(2)
        except click.UsageError as error:
            if isinstance(error, _HELP_INSTEAD):
                streams.told(error.format_message())
            else:
                streams.told(
                    told(error, f"{ctx.command_path} {ctx.invoked_subcommand or ''}".strip())
                )
            ctx.exit(2)
        except KeyboardInterrupt:
            streams.told("interrupted")
            ctx.exit(INTERRUPTED)
        except OSError as error:
            ctx.exit(streams.status_of(streams.failed_write(error)))


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT)
@click.version_option(__version__, prog_name="consistency")
def main() -> None:
    """Does the same PyTorch operator give the same numbers on every backend?

    Draws inputs for each operator, runs them on every backend, and judges each result against
    float64 in one unit, × budget: below 1 is rounding, above is a divergence, shown with the
    command that repeats it.

    \b
    consistency run                          all that is available here, in a minute
    consistency run matmul 'nn.functional.*' --backend cpu --backend cuda
    consistency backends                     what is available, and why not
    consistency operators --family pooling   what is covered
    """


for command in (
    run, backends, operators, repro, report, bisect, sweep, explain, fingerprint, model,
    check_onnx, debug, diff, expect, matrix, corpus, query, pack,
    record, judge, calibrate,
):  # fmt: skip
    main.add_command(command)
