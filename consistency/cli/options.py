"""The options that several commands have, declared once, and commands whose help shows options in
groups."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from ..core.quantities import seconds_of, size_in_bytes
from ..engine.run_options import DECLARED, NO_SHIPPED, RunOptions
from ..errors import UsageError

ARGUMENTS = "consistency.arguments"  # of the command line, in the context's ``meta``
INTERRUPTED = 130  # the exit status, as shells report SIGINT

# Which options stand together in the help of a command; all others under the last title.
GROUPS = {
    "What to test": (
        "dtype", "direction", "corpus", "source", "seed", "seeds", "id", "family", "case", "shape",
        "vary", "fix", "formula", "against", "exhaustive", "range", "bundle", "literal", "filter",
        "worst", "module",
    ),
    "Backends": (
        "backend", "over", "pip", "stand-in", "case-timeout", "worker-memory",
        "trust",
    ),
    "How much": (
        "profile", "examples", "no-shipped", "memory", "fills", "time-budget", "repeat", "steps",
        "replicas", "points", "no-local", "seconds", "keep-going", "every-call",
    ),
    "Judging": (
        "reference", "tolerances", "expectations", "no-shrink", "minimize", "reason", "ticket",
        "expires",
    ),
    "Where it is judged": ("jobs", "cluster", "resource", "workers"),
    "Output": (
        "out", "resume", "label", "json", "fingerprint", "not-tested", "no-bundle", "script",
        "issue", "markdown", "text", "png", "csv", "all", "proposal", "record", "file", "store",
        "no-artifacts", "health", "coverage", "name", "keep", "portable",
    ),
    "Other": (),
}  # fmt: skip


class Command(click.Command):
    """A command whose help shows its options in groups, and the arguments of operators that were
    named before ``--help``."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.name in ("operators", "run", "sweep", "explain"):
            from .operator_help import operator_rows

            given = ctx.find_root().meta.get(ARGUMENTS, ())
            rows = operator_rows(given[1:], formulas=self.name in ("sweep", "explain"))
            if rows:
                with formatter.section("Operators"):
                    formatter.write_dl(rows)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records: dict[str, list[tuple[str, str]]] = {title: [] for title in GROUPS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                names = {name.lstrip("-") for name in (*param.opts, *param.secondary_opts)}
                title = next((t for t, group in GROUPS.items() if names & set(group)), "Other")
                records[title].append(record)
        for title, rows in records.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


command = functools.partial(click.command, cls=Command)


def seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """``90s``, ``5m`` or ``2h`` in seconds; None if it is not given."""
    try:
        return None if value is None else seconds_of(value)
    except UsageError as error:
        raise click.BadParameter(str(error)) from None


def some_seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """The same, and more than none."""
    found = seconds(ctx, param, value)
    if found is not None and not 0 < found < math.inf:
        raise click.BadParameter(f"{value!r:.40} is no time; give more than 0, such as 60s")
    return found


def optional_size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """``8G``, ``8GB`` or ``512MB`` in bytes (a kilobyte has 1024); None if it is not given."""
    try:
        return None if value is None else size_in_bytes(value)
    except UsageError as error:
        raise click.BadParameter(str(error)) from None


def size(ctx: click.Context, param: click.Parameter, value: str | None) -> int:
    """The same; 0 if it is not given."""
    return optional_size(ctx, param, value) or 0


def _explained(name: str, **more: Any) -> dict[str, Any]:
    declared = DECLARED[name]
    text = declared.text[0].upper() + declared.text[1:]
    default = f" [default: {declared.default}]" if declared.default else ""
    many = {"multiple": True} if declared.many else {}
    repeatable = " (repeatable)" if declared.many else ""
    return {"metavar": declared.metavar, "help": f"{text}{repeatable}{default}."} | many | more


FOLDER = click.Path(path_type=Path, file_okay=False)
FILE_OR_STDOUT = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
_OPTIONS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "backends": (("--backend", "-b", "backends"), _explained("backends")),
    "dtypes": (("--dtype", "dtypes"), _explained("dtypes")),
    "directions": (("--direction", "directions"), _explained("directions")),
    "profile": (("--profile",), _explained("profile")),
    "memory": (("--memory",), _explained("memory", callback=optional_size)),
    "examples": (("--examples",), _explained("examples", type=click.IntRange(min=1))),
    "no_shipped": (("--no-shipped",), {
        "is_flag": True, "help": NO_SHIPPED[0].upper() + NO_SHIPPED[1:] + ".",
    }),
    "seed": (("--seed",), _explained("seed", type=int)),
    "reference": (("--reference",), _explained("reference")),
    "source": (("--source",), _explained("source")),
    "tolerances": (("--tolerances",), _explained("tolerances")),
    "expectations": (("--expectations",), _explained("expectations")),
    "time_budget": (("--time-budget",), {
        "callback": some_seconds, "metavar": "TIME",
        "help": "Go on with fresh inputs until 60s, 5m or 2h are over.",
    }),
    "fills": (("--fills",), {
        "type": click.IntRange(min=1), "default": 1, "metavar": "N",
        "help": "Judge each case with N sets of numbers: one graph of a backend that compiles, "
        "such as cpu+compile, serves them all [default: 1].",
    }),
    "repeat": (("--repeat",), {
        "type": click.IntRange(min=0), "default": 0, "metavar": "N",
        "help": "Run some cases of each operator N times more, with other threads, and a row "
        "alone: are the bits the same?",
    }),
    "case_timeout": (("--case-timeout",), {
        "callback": some_seconds, "default": "30s", "show_default": True, "metavar": "TIME",
        "help": "Longest that one case may take on a backend in a process of its own "
        "(accelerators, +isolated, @PYTHON).",
    }),
    "worker_memory": (("--worker-memory",), {
        "callback": size, "metavar": "SIZE",
        "help": "Most memory that a backend in a process of its own may take, e.g. 8GB [default: "
        "three quarters of the machine's].",
    }),
    "no_shrink": (("--no-shrink",), {
        "is_flag": True, "help": "Show failing cases as they were drawn.",
    }),
    "exhaustive": (("--exhaustive/--no-exhaustive",), {
        "default": None,
        "help": "Functions of single elements also on every float32, and those of two on pairs of "
        "2,048 chosen numbers in 16 bits; or on no exhaustive case at all [default: on every "
        "number of 16 bits, and 65,536 of float32 and float64].",
    }),
    "identifier": (("--id", "identifier"), {
        "metavar": "ID", "help": "With a bundle or a recording as CASE: which case of it.",
    }),
    "json_file": (("--json", "json_file"), {
        "type": FILE_OR_STDOUT,
        "help": "Also write one object a line per result; - for standard output.",
    }),
    "trust": (("--trust",), {
        "is_flag": True,
        "help": "Run cases that are not your own runs' like your own: whatever they call, in this "
        "process, without bounds on memory and time.",
    }),
    "not_tested": (("--not-tested",), {
        "is_flag": True, "help": "List what was not tested, and why.",
    }),
}  # fmt: skip

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def option(name: str, **changes: Any) -> Decorator:
    """A declared option, with the changes of one command."""
    declarations, attributes = _OPTIONS[name]
    return click.option(*declarations, **{**attributes, **changes})


def run_options(*names: str, **changes: dict[str, Any]) -> Decorator:
    """Add the argument OPERATOR and the named options of a run to a command, collected in its
    argument ``options`` (:class:`~consistency.engine.run_options.RunOptions`). ``changes``:
    differences in this command, by name of the option."""
    option_names = {field.name for field in fields(RunOptions)} & {"operators", *names}

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def collected(**values: Any) -> Any:
            chosen = {name: values.pop(name) for name in option_names}
            chosen = {name: None if value == () else value for name, value in chosen.items()}
            return function(options=RunOptions(**chosen), **values)

        decorated: Callable[..., Any] = collected
        for name in reversed(names):
            decorated = option(name, **changes.get(name, {}))(decorated)
        return click.argument("operators", nargs=-1, metavar="[OPERATOR]...")(decorated)

    return decorate
