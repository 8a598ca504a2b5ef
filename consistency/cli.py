"""The ``consistency`` command: a thin front on the engine. Errors of ours become one line and exit status 2."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import click

from . import __version__
from .cli_options import expectations_option, seconds, size
from .commands._replaying import NIGHTLY, prepared
from .commands.bisect import bisect
from .commands.calibrate import calibrate
from .commands.cluster import Asked, begun_under, cluster_options, default_specs, run_on_cluster
from .commands.corpus import corpus
from .commands.diff import diff
from .commands.expect import expect
from .commands.explain import explain
from .commands.fingerprint import fingerprint
from .commands.judge import judge
from .commands.matrix import matrix
from .commands.model import model
from .commands.query import query
from .commands.record import record
from .commands.report import report
from .commands.repro import repro
from .commands.sweep import sweep
from .errors import ConsistencyError, UsageError, did_you_mean
from .profiles import PROFILES
from .threads import let_waiting_threads_sleep

EXIT = """\b
Exit status: 0 consistent · 1 a verdict fails · 2 bad usage or configuration
3 nothing failed, but nothing was tested, or not on a backend that was asked for"""
INTERRUPTED, BROKEN_PIPE = 130, 141  # as shells report SIGINT and SIGPIPE


class _Group(click.Group):
    """Commands in the order of their use; unknown ones get a suggestion; every error is one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if command is None:
            hint = did_you_mean(cmd_name, self.list_commands(ctx))
            raise UsageError(f"there is no command {cmd_name!r}{hint or '; `consistency --help` lists them'}")
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
            command = error.ctx.command_path if error.ctx is not None else "consistency"
            click.echo(f"{command}: {_uncapitalised(error.format_message())}; see {command} --help", err=True)
            ctx.exit(2)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:  # `consistency … | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it flushes at exit
            ctx.exit(BROKEN_PIPE)


def _any_encoding() -> None:
    """Marks such as ✓ must not end a run on a stream that cannot hold them; a Windows pipe or file gets UTF-8."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            redirected = os.name == "nt" and not stream.isatty() and "PYTHONIOENCODING" not in os.environ
            stream.reconfigure(encoding="utf-8" if redirected else None, errors="backslashreplace")


def _uncapitalised(text: str) -> str:
    line = " ".join(text.split()).removesuffix(".")
    return line[:1].lower() + line[1:]


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT)
@click.version_option(__version__, prog_name="consistency")
def main() -> None:
    """Does the same PyTorch operator give the same numbers on every backend?

    Draws inputs for each operator, runs them on every backend, and judges each result against float64 in one unit, × budget:
    below 1 is rounding, above is a divergence, shown with the command that repeats it.

    \b
    consistency run                          everything that is available here, in a minute or two
    consistency run matmul 'nn.functional.*' --backend cpu --backend cuda
    consistency backends                     what is available, and why not
    consistency operators --family pooling   what is covered
    """


_backend = click.option(
    "--backend",
    "-b",
    "backends",
    multiple=True,
    metavar="SPEC",
    help="cpu, cpu+onednn=off, numpy, cuda:1+tf32, directml, file.py:attribute … (repeatable; default: all available).",
)
_case_timeout = click.option(
    "--case-timeout",
    callback=seconds,
    default="30",
    show_default=True,
    metavar="TIME",
    help="Longest that one case may take on a backend in a process of its own (accelerators, +isolated, @PYTHON).",
)
_direction = click.option(
    "--direction", "directions", multiple=True, metavar="D", help="forward or backward (repeatable; default: both)."
)
_tolerances = click.option("--tolerances", metavar="FILE", help="A tolerances.yaml in place of the packaged one.")


@main.command(short_help="Draw inputs, run them everywhere, judge the differences.")
@click.argument("operators", nargs=-1, metavar="[OPERATOR]...")
@_backend
@click.option(
    "--dtype", "dtypes", multiple=True, metavar="D", help="float32, float64, float16, … (repeatable; default: each operator's own)."
)
@_direction
@click.option(
    "--profile",
    metavar="NAME",
    default="quick",
    show_default=True,
    help="quick (5 cases per operator and dtype), default (50) or nightly (200).",
)
@click.option(
    "--examples", type=click.IntRange(min=1), metavar="N", help="Cases per operator and dtype, in place of the profile's."
)
@click.option(
    "--seed", type=int, metavar="N", help="Other inputs for another number [default: 0; with a corpus another one for each run]."
)
@click.option("--time-budget", callback=seconds, metavar="TIME", help="Go on with fresh inputs until 60s, 5m or 2h are over.")
@click.option(
    "--corpus",
    type=click.Path(path_type=Path, file_okay=False),
    help="Replay the cases in this folder first [default: none; with --profile nightly the standard corpus].",
)
@click.option(
    "--reference",
    metavar="MODE",
    default="spot",
    show_default=True,
    help="What is right: float64 on the CPU (float64), the same with spot checks (spot), or verified by oracles (verified).",
)
@click.option(
    "--source",
    metavar="NAME",
    default="drawn",
    show_default=True,
    help="Where cases come from: drawn by our own strategies, or opinfo, the samples of PyTorch's installed operator database.",
)
@_case_timeout
@click.option(
    "--worker-memory",
    callback=size,
    metavar="SIZE",
    help="Most memory that a backend in a process of its own may take, e.g. 8GB [default: three quarters of the machine's].",
)
@_tolerances
@expectations_option
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder of the bundle [default: reports/TIME].")
@click.option("--resume", is_flag=True, help="Complete the interrupted bundle in --out.")
@click.option(
    "--label", metavar="NAME", default="", help="What the bundle calls this machine and environment [default: OS, CPU, versions]."
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Also write one object a line per result; - for standard output.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Run some cases of each operator N times more, with other threads, and a row alone: are the bits the same?",
)
@click.option(
    "--fingerprint/--no-fingerprint", "probed", default=None,
    help="Keep how the backends compute, found out by probes, in the bundle [default: in runs of 30 seconds or more].",
)  # fmt: skip
@click.option("--not-tested", is_flag=True, help="List what was not tested, and why.")
@click.option("--no-bundle", is_flag=True, help="Write no bundle.")
@click.option("--no-shrink", is_flag=True, help="Show failing cases as they were drawn.")
@cluster_options
def run(
    operators: Sequence[str], backends: Sequence[str], dtypes: Sequence[str], directions: Sequence[str], profile: str,
    examples: int | None, seed: int | None, time_budget: float | None, corpus: Path | None, reference: str, tolerances: str | None,
    out: Path | None,
    resume: bool, json_file: Path | None, not_tested: bool, no_bundle: bool, no_shrink: bool, source: str, case_timeout: float,
    worker_memory: int, repeat: int, label: str, expectations: Sequence[str], cluster: str | None, resources: Sequence[str],
    workers: int, probed: bool | None,
) -> None:  # fmt: skip
    """Draw inputs, run them everywhere, judge the differences.

    OPERATOR is a name as in torch (matmul, nn.functional.conv2d), a glob ('linalg.*') or family:NAME; default: all.

    \b
    consistency run --backend cpu --backend cuda --dtype float32
    consistency run matmul --examples 500 --json results.jsonl
    consistency run --profile nightly --time-budget 2h --out reports/tonight
    consistency run --cluster tcp://head:8786 --backend cpu --backend cuda --out reports/tonight
    consistency run --corpus corpus --time-budget 2h --out reports/tonight
    """
    from . import bundle, engine
    from .events import Handler
    from .expectations import ledger
    from .fingerprint.kept import AFTER_SECONDS
    from .report import page
    from .report.terminal import Screen, exit_status

    if resume and no_bundle:
        raise UsageError("--resume completes a bundle and --no-bundle writes none: leave one of them out")

    if profile not in PROFILES:
        raise UsageError(f"unknown profile {profile!r}{did_you_mean(profile, PROFILES) or '; known: ' + ', '.join(PROFILES)}")
    if resume and out is None:
        raise UsageError("--resume needs the folder to complete: add --out FOLDER")
    if cluster is None and (resources or workers > 1):
        raise UsageError("--resource and --workers belong to --cluster ADDRESS")
    if cluster is not None and probed:
        raise UsageError("--fingerprint probes the backends of this machine: leave it or --cluster out")
    specs = list(backends) or (default_specs() if cluster else None)
    chosen = engine.settings(
        list(operators) or None, specs, list(dtypes) or None, list(directions) or engine.DIRECTIONS,
        examples or PROFILES[profile], seed or 0, time_budget, tolerances, not no_shrink, reference, source, case_timeout,
        worker_memory, repeat, expectations=expectations,
    )  # fmt: skip
    interrupted = out if resume else None
    if cluster is not None and interrupted is not None:
        interrupted, seed = begun_under(interrupted, seed)
    chosen = prepared(chosen, corpus, seed=seed, profile=profile, out=interrupted, asked=examples is not None or profile == NIGHTLY)
    folder = None if no_bundle else out or _new_folder()
    to_stdout = json_file is not None and str(json_file) == "-"
    if cluster is not None:
        shown = None if json_file is None else _open(json_file)
        asked = Asked(cluster, resources, workers, bool(backends), folder, resume, label, not_tested, expectations)
        sys.exit(run_on_cluster(chosen, asked, shown))
    elsewhere = () if backends else _not_here()
    screen = Screen(stream=sys.stderr if to_stdout else None, out=folder, not_tested=not_tested, elsewhere=elsewhere)
    earlier = bundle.earlier_results(folder) if resume and folder is not None else None
    with contextlib.ExitStack() as stack:
        stack.callback(screen.stop)
        handlers: list[Handler] = []
        if folder is not None:
            seconds_before_probes = {True: 0.0, False: math.inf, None: AFTER_SECONDS}[probed]
            writer = bundle.Writer(folder, resume=resume, label=label, probed_after=seconds_before_probes)
            stack.callback(writer.close)
            handlers += [writer, ledger.Keeper(folder), page.after(folder)]
        stream = _open(json_file)
        if stream is not None:
            if stream is not sys.stdout:
                stack.callback(stream.close)
            handlers.append(_json_writer(stream))
        try:
            engine.drive(chosen, [*handlers, screen], earlier)
        except KeyboardInterrupt:
            screen.stop()
            again = f"; complete it with --resume --out {folder}" if folder else ""
            click.echo(f"interrupted after {screen.tally.results:,} results{again}", err=True)
            sys.exit(INTERRUPTED)
    sys.exit(exit_status(screen.tally, asked=bool(backends)))


def _not_here() -> list[str]:
    """The backends that are known and cannot be used here."""
    from . import backends

    return [backend.name for backend in backends.catalogue() if backends.availability(backend)]


def _new_folder() -> Path:
    return Path("reports") / datetime.datetime.now().strftime("%Y-%m-%dT%H-%M-%S")


def _open(path: Path | None) -> IO[str] | None:
    if path is None:
        return None
    if str(path) == "-":
        return sys.stdout
    try:
        return path.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _json_writer(stream: IO[str]) -> Callable[[Any], None]:
    from .bundle import result_to_json
    from .events import Judged, Shrunk

    def write(event: Any) -> None:
        results = event.results if isinstance(event, Judged) else (event.result,) if isinstance(event, Shrunk) else ()
        for result in results:
            stream.write(json.dumps(result_to_json(result)) + "\n")
        if results:
            stream.flush()

    return write


@main.command(short_help="List the backends, or why one is unavailable.")
@click.option(
    "--backend",
    "-b",
    "backends",
    multiple=True,
    metavar="SPEC",
    help="Only this one (repeatable; default: all that are known by name).",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON array instead of text.")
def backends(as_json: bool, backends: Sequence[str]) -> None:
    """List the backends: device, driver, versions, float64 or not, or why one is unavailable here.

    \b
    consistency backends --backend cuda:1+tf32
    consistency backends --backend mine.py:Backend
    """
    from . import backends as known
    from .backends.listing import describe

    found = [known.isolated(b, b.name) for b in (known.resolve_all(list(backends)) if backends else known.catalogue())]
    for backend in found:
        backend.ahead(())  # processes of their own load torch side by side
    rows = [describe(backend) for backend in found]
    for backend in found:
        backend.close()
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        float64 = {True: "float64", False: "no float64", None: ""}[row["float64"]]
        details = " · ".join(filter(None, [row["device"], row["driver"] and f"driver {row['driver']}", *row["versions"], float64]))
        click.echo(f"{'✓' if row['available'] else '–'} {row['name']:<18} {details if row['available'] else row['reason']}")


@main.command(short_help="List the operators: family, dtypes, directions.")
@click.argument("patterns", nargs=-1, metavar="[OPERATOR]...")
@click.option("--family", metavar="NAME", help="Only one family.")
@click.option("--json", "as_json", is_flag=True, help="One object a line: name, family, dtypes, directions, error model, traits.")
@click.option("--coverage", is_flag=True, help="Measure which aten operators and kernels are reached, and say what is missing.")
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False), help="With --coverage: also write it as a page.")
@click.option("--health", is_flag=True, help="Measure whether the draws are valid, tell something, and differ.")
@click.option("--examples", type=click.IntRange(min=1), default=60, show_default=True, metavar="N", help="With --health: draws.")
def operators(
    patterns: Sequence[str], family: str | None, as_json: bool, coverage: bool, markdown: Path | None, health: bool, examples: int
) -> None:
    """List the operators: family, dtypes, directions.

    OPERATOR is a name as in torch, a glob or family:NAME; default: all.

    \b
    consistency operators 'nn.functional.*pool*'
    consistency operators --family linalg --json
    consistency operators --coverage                   seconds to a minute or two
    consistency operators softmax --health
    """
    from . import operators as registry
    from .commands.coverage import show_coverage, show_health

    wanted = [*patterns, *([f"family:{family}"] if family else [])]
    chosen = registry.select(wanted or None)
    if coverage and health:
        raise UsageError("--coverage and --health measure different things: ask for one of them")
    if markdown is not None and not coverage:
        raise UsageError("--markdown writes what --coverage measured: add it")
    if coverage:
        show_coverage(chosen, as_json, markdown)
        return
    if health:
        show_health(chosen, as_json, examples)
        return
    if as_json:
        for o in chosen:
            row = {"name": o.name, "family": o.family, "dtypes": o.dtypes, "directions": o.directions, "error": o.error.kind}
            click.echo(json.dumps(row | {"traits": sorted(o.traits), "available": o.callable is not None}))
        return
    for o in chosen:
        absent = "" if o.callable is not None else "   (not in this torch)"
        click.echo(f"{o.name:<44} {o.family:<14} {' '.join(o.dtypes)}{'   ↔' if o.differentiable else ''}{absent}")
    families = len({o.family for o in chosen})
    many = f"{len(chosen)} operator{'s' if len(chosen) != 1 else ''} in {families} famil{'ies' if families != 1 else 'y'}"
    click.echo(f"{many}; ↔ forward and backward", err=True)


main.add_command(repro)
main.add_command(report)
main.add_command(bisect)
main.add_command(sweep)
main.add_command(explain)
main.add_command(fingerprint)
main.add_command(model)
main.add_command(diff)
main.add_command(expect)
main.add_command(matrix)
main.add_command(corpus)
main.add_command(query)
main.add_command(record)
main.add_command(judge)
main.add_command(calibrate)
