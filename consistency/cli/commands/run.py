"""``consistency run``: draw inputs, run them everywhere, judge the differences."""

from __future__ import annotations

import contextlib
import datetime
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...core.process_setup import freeze_garbage
from ...engine.executors.early_processes import (
    EarlyProcesses,
    check_processes,
    likely_processes,
    likely_threads,
)
from ...engine.run_options import RunOptions
from ...errors import UsageError
from ..echo import echo
from ..options import FOLDER, INTERRUPTED, command, option, run_options
from ._corpus_options import NIGHTLY, prepared
from ._incomplete import completion_told
from ._rows import json_writer, opened
from .cluster import ClusterOptions, begun_under, cluster_options, default_specs, run_on_cluster

if TYPE_CHECKING:
    from ...engine.bundle_writer import BundleWriter


@command(short_help="Draw inputs, run them everywhere, judge the differences.")
@run_options(
    "dtypes", "directions", "source", "seed", "backends", "case_timeout", "worker_memory",
    "profile", "examples", "no_shipped", "memory", "exhaustive", "fills", "time_budget", "repeat",
    "reference", "tolerances", "expectations",
    "no_shrink",
    seed={
        "help": "Other inputs for another number [default: 0; with a corpus another one for each "
        "run]."
    },
)  # fmt: skip
@click.option(
    "--corpus",
    type=FOLDER,
    help=(
        "Replay the cases in this folder first [default: none; with --profile nightly the "
        "standard corpus]."
    ),
)
@click.option(
    "--jobs", "-j", type=click.IntRange(min=1), metavar="N",
    help="Judge in N processes of this machine [default: as many as its cores, with enough to "
    "test; 1 for accelerators and large cases].",
)  # fmt: skip
@cluster_options
@click.option("--out", "-o", type=FOLDER, help="Folder of the bundle [default: reports/TIME].")
@click.option("--resume", is_flag=True, help="Complete the interrupted bundle in --out.")
@click.option(
    "--label",
    metavar="NAME",
    default="",
    help="What the bundle calls this machine and environment [default: OS, CPU, versions].",
)
@option("trust")
@option("json_file")
@click.option(
    "--fingerprint/--no-fingerprint", "probed", default=None,
    help=("Probe how the backends compute, and keep it in the bundle [default: after runs of 10 "
    "minutes, once in each environment]."),
)  # fmt: skip
@option("not_tested")
@click.option("--no-bundle", is_flag=True, help="Write no bundle.")
def run(
    options: RunOptions, corpus: Path | None, jobs: int | None, cluster: str | None,
    resources: Sequence[str], workers: int, out: Path | None, resume: bool, label: str,
    trust: bool, json_file: Path | None, probed: bool | None, not_tested: bool, no_bundle: bool,
) -> None:  # fmt: skip
    """Draw inputs, run them everywhere, judge the differences.

    OPERATOR is a name as in torch (matmul, nn.functional.conv2d), a glob ('linalg.*') or
    family:NAME; default: all. Every operator × dtype is a work unit: its cases are drawn, run on
    every backend, and each result is judged against float64.

    \b
    consistency run --backend cpu --backend cuda --dtype float32
    consistency run matmul --examples 500 --json results.jsonl
    consistency run --profile nightly --time-budget 2h --out reports/tonight
    consistency run --profile large --memory 8G --time-budget 20m
    consistency run --jobs 4                              four processes; a crash costs one case
    consistency run --cluster tcp://head:8786 --backend cpu --backend cuda --out reports/tonight
    consistency run --corpus corpus --time-budget 2h --out reports/tonight

    \b
    Exit status: 0 consistent · 1 a verdict fails · 2 bad usage or configuration
    3 nothing failed, but nothing was tested, or not on a backend that was asked for
    """
    began = time.monotonic()  # loading torch is part of a minute
    check_processes(jobs)
    early = _early_processes(options, corpus, jobs, cluster)
    from ...core.foreign import Bounds
    from ...engine import engine
    from ...engine.events import Handler
    from ...engine.executors.process_count import process_count
    from ...engine.known import status
    from ...engine.misnamed_rules import misnamed_rules
    from ...engine.resume import earlier_results
    from ...report import bundles, page
    from ...report.terminal import Screen, exit_status
    from ...storage.provenance import is_own_folder
    from . import _fingerprint_progress

    if resume and no_bundle:
        raise UsageError(
            "--resume completes a bundle and --no-bundle writes none: leave one of them out"
        )
    if resume and out is None:
        raise UsageError("--resume needs the folder to complete: add --out FOLDER")
    if cluster is None and (resources or workers > 1):
        raise UsageError("--resource and --workers belong to --cluster ADDRESS")
    if cluster is not None and corpus is not None and not (trust or is_own_folder(corpus)):
        raise UsageError(
            f"{corpus} is not a corpus of your own runs, and workers have no bounds for its cases; "
            "if you trust it, add --trust"
        )
    if cluster is not None and jobs is not None:
        raise UsageError("--jobs is for this machine: leave it out with --cluster")
    config = options.config(default_specs() if cluster else None)
    for line in misnamed_rules(config.tolerances) if options.tolerances else ():
        echo(f"! {line}")
    freeze_garbage()
    seed, interrupted = options.seed, out if resume else None
    if cluster is not None and interrupted is not None:
        interrupted, seed = begun_under(interrupted, seed)
    config = prepared(
        config,
        corpus,
        seed=seed,
        profile=options.profile or "quick",
        out=interrupted,
        asked=options.examples is not None or options.profile == NIGHTLY,
    )
    if config.time_limit is not None:
        config = replace(config, used=time.monotonic() - began)
    folder = None if no_bundle else out or _new_folder()
    to_stdout = json_file is not None and str(json_file) == "-"
    if cluster is not None:
        cluster_settings = ClusterOptions(
            cluster,
            resources,
            workers,
            bool(options.backends),
            folder,
            resume,
            label,
            not_tested,
            options.expectations or (),
            probed,
            to_stdout,
        )
        with opened(json_file) as rows:
            sys.exit(run_on_cluster(config, cluster_settings, rows))
    elsewhere = () if options.backends else _unavailable_names()
    known = status.StatusWriter(folder)
    screen = Screen(
        stream=sys.stderr if to_stdout else None,
        out=folder,
        not_tested=not_tested,
        elsewhere=elsewhere,
        known=known,
    )
    executor: engine.Executor | None = None
    own = trust or corpus is None or is_own_folder(corpus)
    processes = jobs or (process_count(config) if own else 1)
    if jobs is not None or processes > 1 or not own:
        from ...engine.executors.processes import ProcessExecutor

        executor = ProcessExecutor(
            config, processes, bounds=None if own else Bounds(),
            expectations=options.expectations or (),
            fingerprints=probed if folder is not None else False, notify=screen.remark,
            early=early, brief=json_file is None,
        )  # fmt: skip
    earlier = earlier_results(folder) if resume and folder is not None else None
    with contextlib.ExitStack() as stack:
        stack.callback(screen.stop)
        handlers: list[Handler] = [known]
        last: list[Handler] = []  # after the screen's output
        writers: list[BundleWriter] = []
        if folder is not None:
            writer = bundles.writer(folder, resume=resume, label=label, own=own, bounded=not own)
            writers.append(writer)
            stack.callback(writer.close)
            handlers = [writer, known, page.after(folder)]
            last = _fingerprint_progress.handlers(folder, probed, screen)
        stack.enter_context(completion_told([screen], folder, writers))
        stream = stack.enter_context(opened(json_file))
        if stream is not None:
            handlers.append(json_writer(stream))
        try:
            engine.drive(config, [*handlers, screen, *last], earlier, executor)
        except KeyboardInterrupt:
            screen.stop()
            if screen.summary.failures:
                screen.closing(None)
            resume_hint = f"; complete it with --resume --out {folder}" if folder else ""
            echo(f"interrupted after {screen.summary.results:,} results{resume_hint}", err=True)
            sys.exit(INTERRUPTED)
    sys.exit(exit_status(screen.summary, asked=bool(options.backends)))


def _early_processes(
    options: RunOptions, corpus: Path | None, jobs: int | None, cluster: str | None
) -> EarlyProcesses | None:
    """Judging processes that load torch while this one does; ended with the command at the latest.

    None where a run may need none: for some operators or dtypes only, on named backends, for large
    cases, on a cluster, and for a corpus, which may be from elsewhere.
    """
    if cluster is not None or corpus is not None:
        return None
    named = (options.operators, options.dtypes, options.directions, options.backends)
    count = likely_processes(jobs, everything=not any(named) and options.profile != "large")
    if not count:
        return None
    early = EarlyProcesses(count, likely_threads())
    click.get_current_context().call_on_close(early.close)
    return early


def _unavailable_names() -> list[str]:
    """The known backends that cannot be used here."""
    from ... import backends

    return [backend.name for backend in backends.catalog() if backends.availability(backend)]


def _new_folder() -> Path:
    return Path("reports") / datetime.datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
