"""``consistency run``: draw inputs, run them everywhere, judge the differences."""

from __future__ import annotations

import contextlib
import datetime
import gc
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ...engine.profiles import PROFILES
from ...engine.resume import earlier_results
from ...errors import UsageError, did_you_mean
from ...report import bundles
from ..options import INTERRUPTED, expectations_option, seconds, size
from ._replaying import NIGHTLY, prepared
from ._rows import json_writer, opened
from .cluster import Asked, begun_under, cluster_options, default_specs, run_on_cluster

_backend = click.option(
    "--backend",
    "-b",
    "backends",
    multiple=True,
    metavar="SPEC",
    help=(
        "cpu, cpu+onednn=off, numpy, cuda:1+tf32, directml, file.py:attribute … (repeatable; "
        "default: all available)."
    ),
)
_case_timeout = click.option(
    "--case-timeout",
    callback=seconds,
    default="30s",
    show_default=True,
    metavar="TIME",
    help=(
        "Longest that one case may take on a backend in a process of its own (accelerators, "
        "+isolated, @PYTHON)."
    ),
)
_direction = click.option(
    "--direction",
    "directions",
    multiple=True,
    metavar="D",
    help="forward or backward (repeatable; default: both).",
)
_tolerances = click.option(
    "--tolerances", metavar="FILE", help="A tolerances.yaml in place of the packaged one."
)


@click.command(short_help="Draw inputs, run them everywhere, judge the differences.")
@click.argument("operators", nargs=-1, metavar="[OPERATOR]...")
@_backend
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    metavar="D",
    help="float32, float64, float16, … (repeatable; default: each operator's own).",
)
@_direction
@click.option(
    "--profile",
    metavar="NAME",
    default="quick",
    show_default=True,
    help="quick: 5 cases per operator and dtype; default: 50; nightly: 200.",
)
@click.option(
    "--examples",
    type=click.IntRange(min=1),
    metavar="N",
    help="Cases per operator and dtype, in place of the profile's.",
)
@click.option(
    "--seed",
    type=int,
    metavar="N",
    help="Other inputs for another number [default: 0; with a corpus another one for each run].",
)
@click.option(
    "--time-budget",
    callback=seconds,
    metavar="TIME",
    help="Go on with fresh inputs until 60s, 5m or 2h are over.",
)
@click.option(
    "--corpus",
    type=click.Path(path_type=Path, file_okay=False),
    help=(
        "Replay the cases in this folder first [default: none; with --profile nightly the "
        "standard corpus]."
    ),
)
@click.option(
    "--reference",
    metavar="MODE",
    default="spot",
    show_default=True,
    help=(
        "What is right: float64 on the CPU (float64), the same with some elements proved "
        "(spot), or all (verified)."
    ),
)
@click.option(
    "--source",
    metavar="NAME",
    default="drawn",
    show_default=True,
    help=(
        "Where cases come from: drawn by our own strategies, or opinfo, the samples of "
        "PyTorch's installed operator database."
    ),
)
@_case_timeout
@click.option(
    "--worker-memory",
    callback=size,
    metavar="SIZE",
    help=(
        "Most memory that a backend in a process of its own may take, e.g. 8GB [default: three "
        "quarters of the machine's]."
    ),
)
@_tolerances
@expectations_option
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the bundle [default: reports/TIME].",
)
@click.option("--resume", is_flag=True, help="Complete the interrupted bundle in --out.")
@click.option(
    "--label",
    metavar="NAME",
    default="",
    help="What the bundle calls this machine and environment [default: OS, CPU, versions].",
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
    help=(
        "Run some cases of each operator N times more, with other threads, and a row alone: are "
        "the bits the same?"
    ),
)
@click.option(
    "--fingerprint/--no-fingerprint", "probed", default=None,
    help=("Probe how the backends compute, and keep it in the bundle [default: once in each "
    "environment]."),
)  # fmt: skip
@click.option("--not-tested", is_flag=True, help="List what was not tested, and why.")
@click.option("--no-bundle", is_flag=True, help="Write no bundle.")
@click.option("--no-shrink", is_flag=True, help="Show failing cases as they were drawn.")
@cluster_options
def run(
    operators: Sequence[str], backends: Sequence[str], dtypes: Sequence[str],
    directions: Sequence[str], profile: str,
    examples: int | None, seed: int | None, time_budget: float | None, corpus: Path | None,
    reference: str, tolerances: str | None,
    out: Path | None,
    resume: bool, json_file: Path | None, not_tested: bool, no_bundle: bool, no_shrink: bool,
    source: str, case_timeout: float,
    worker_memory: int, repeat: int, label: str, expectations: Sequence[str], cluster: str | None,
    resources: Sequence[str],
    workers: int, probed: bool | None,
) -> None:  # fmt: skip
    """Draw inputs, run them everywhere, judge the differences.

    OPERATOR is a name as in torch (matmul, nn.functional.conv2d), a glob ('linalg.*') or
    family:NAME; default: all.

    \b
    consistency run --backend cpu --backend cuda --dtype float32
    consistency run matmul --examples 500 --json results.jsonl
    consistency run --profile nightly --time-budget 2h --out reports/tonight
    consistency run --cluster tcp://head:8786 --backend cpu --backend cuda --out reports/tonight
    consistency run --corpus corpus --time-budget 2h --out reports/tonight

    \b
    Exit status: 0 consistent · 1 a verdict fails · 2 bad usage or configuration
    3 nothing failed, but nothing was tested, or not on a backend that was asked for
    """
    from ...engine import engine
    from ...engine.events import Handler
    from ...engine.known import status
    from ...report import page
    from ...report.terminal import Screen, exit_status
    from . import _probing

    if resume and no_bundle:
        raise UsageError(
            "--resume completes a bundle and --no-bundle writes none: leave one of them out"
        )

    if profile not in PROFILES:
        raise UsageError(
            f"unknown profile "
            f"{profile!r}{did_you_mean(profile, PROFILES) or '; known: ' + ', '.join(PROFILES)}"
        )
    if resume and out is None:
        raise UsageError("--resume needs the folder to complete: add --out FOLDER")
    if cluster is None and (resources or workers > 1):
        raise UsageError("--resource and --workers belong to --cluster ADDRESS")
    specs = list(backends) or (default_specs() if cluster else None)
    chosen = engine.configure(
        list(operators) or None, specs, list(dtypes) or None, list(directions) or engine.DIRECTIONS,
        examples or PROFILES[profile], seed or 0, time_budget, tolerances, not no_shrink, reference,
        source, case_timeout,
        worker_memory, repeat, expectations=expectations,
    )  # fmt: skip
    _spare_the_collector()
    interrupted = out if resume else None
    if cluster is not None and interrupted is not None:
        interrupted, seed = begun_under(interrupted, seed)
    chosen = prepared(
        chosen,
        corpus,
        seed=seed,
        profile=profile,
        out=interrupted,
        asked=examples is not None or profile == NIGHTLY,
    )
    folder = None if no_bundle else out or _new_folder()
    to_stdout = json_file is not None and str(json_file) == "-"
    if cluster is not None:
        asked = Asked(
            cluster,
            resources,
            workers,
            bool(backends),
            folder,
            resume,
            label,
            not_tested,
            expectations,
            probed,
        )
        with opened(json_file) as rows:
            sys.exit(run_on_cluster(chosen, asked, rows))
    elsewhere = () if backends else _not_here()
    screen = Screen(
        stream=sys.stderr if to_stdout else None,
        out=folder,
        not_tested=not_tested,
        elsewhere=elsewhere,
    )
    earlier = earlier_results(folder) if resume and folder is not None else None
    with contextlib.ExitStack() as stack:
        stack.callback(screen.stop)
        handlers: list[Handler] = []
        last: list[Handler] = []  # behind what the screen says
        if folder is not None:
            writer = bundles.writer(folder, resume=resume, label=label)
            stack.callback(writer.close)
            handlers += [writer, status.Keeper(folder), page.after(folder)]
            last = _probing.handlers(folder, probed, screen)
        stream = stack.enter_context(opened(json_file))
        if stream is not None:
            handlers.append(json_writer(stream))
        try:
            engine.drive(chosen, [*handlers, screen, *last], earlier)
        except KeyboardInterrupt:
            screen.stop()
            again = f"; complete it with --resume --out {folder}" if folder else ""
            click.echo(f"interrupted after {screen.tally.results:,} results{again}", err=True)
            sys.exit(INTERRUPTED)
    sys.exit(exit_status(screen.tally, asked=bool(backends)))


def _not_here() -> list[str]:
    """The backends that are known and cannot be used here."""
    from ... import backends

    return [backend.name for backend in backends.catalogue() if backends.availability(backend)]


def _spare_the_collector() -> None:
    """What torch's import left, a million objects, is not garbage: to look through it again and
    again took a twentieth of a run."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def _new_folder() -> Path:
    return Path("reports") / datetime.datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
