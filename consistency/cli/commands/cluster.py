"""``consistency run --cluster``: the same run on other machines, with one bundle per
environment."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from ...core.folders import subfolder
from ...core.output import writing
from ...errors import UsageError
from ..echo import echo
from ..options import INTERRUPTED
from ._incomplete import completion_told
from ._rows import json_writer

if TYPE_CHECKING:
    from ...engine.bundle_writer import BundleWriter
    from ...engine.config import RunConfig
    from ...engine.events import Event, Handler
    from ...engine.executors.workers.environments import WorkerEnvironment
    from ...report.terminal import Screen


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a run on other machines."""
    for option in (
        click.option(
            "--workers", type=click.IntRange(min=1), default=1, metavar="N",
            help="With --cluster: begin when N are connected."
        ),
        click.option(
            "--resource", "resources", multiple=True, metavar="SPEC=LABEL",
            help=("With --cluster: a backend needs workers with this resource [default: cuda, "
            "directml …; none for the CPU]."),
        ),
        click.option("--cluster", metavar="ADDRESS", help=("Run on a Dask cluster: "
        "tcp://HOST:8786, or its scheduler's file.")),
    ):  # fmt: skip
        command = option(command)
    return command


def default_specs() -> list[str]:
    """The backends that are tried if the user names none; machines skip those they lack."""
    from ...engine.executors.workers.environments import BY_DEFAULT

    return list(BY_DEFAULT)


def begun_under(out: Path, seed: int | None) -> tuple[Path | None, int | None]:
    """One bundle of an interrupted run, and the seed of all its bundles. Raises BundleError."""
    from ...storage.bundle import read_header

    folder = next(iter(sorted(path.parent for path in out.glob("*/bundle.json"))), None)
    if folder is None:
        return None, seed
    saved = read_header(folder)["settings"].get("seed")
    return folder, saved if seed is None and isinstance(saved, int) else seed


@dataclass(frozen=True)
class ClusterOptions:
    """The user's options. ``backends``: whether some were named. ``folder`` gets a bundle per
    environment."""

    address: str
    resources: Sequence[str]
    workers: int
    backends: bool
    folder: Path | None
    resume: bool
    label: str
    not_tested: bool
    expectations: Sequence[str] = ()
    fingerprints: bool | None = None
    rows_to_stdout: bool = False


def run_on_cluster(chosen: RunConfig, options: ClusterOptions, rows: IO[str] | None) -> int:
    """Run, show and write; returns the exit status. Results also go to ``rows``, one JSON object
    per line. Raises ConsistencyError."""
    from ...engine.events import ResumeState
    from ...engine.executors.dask.client import DaskClient
    from ...engine.executors.workers.coordinator import Coordinator
    from ...engine.executors.workers.environments import labels_chosen
    from ...engine.resume import earlier_results
    from ...report.progress import ProgressMeter
    from ...report.terminal import console

    if options.label:
        raise UsageError(
            "--label names this machine; workers are named where they run, by the variable "
            "CONSISTENCY_LABEL"
        )
    labels = labels_chosen(options.resources)
    meter = ProgressMeter(console(sys.stderr if options.rows_to_stdout else None))
    with contextlib.ExitStack() as stack:
        client = DaskClient(options.address)
        stack.callback(client.close)
        stack.callback(meter.stop)
        coordinator = Coordinator(
            chosen, client, backends_named=options.backends, labels=labels,
            wait_for=options.workers,
            expectations=options.expectations,
            notify=lambda text: echo(text, err=True),
            fingerprints=options.fingerprints if options.folder is not None else False,
            brief=rows is None,
        )  # fmt: skip
        shown: dict[str, Shown] = {}
        screens: list[Screen] = []
        writers: list[BundleWriter] = []
        stack.enter_context(completion_told(screens, options.folder, writers))
        try:
            for environment in coordinator.gather():
                shown[environment.key] = display = Shown(environment, options, meter, rows)
                stack.callback(display.close)
                screens.append(display.screen)
                writers += display.writers
            folder = options.folder if options.resume else None
            for environment, event in coordinator.run(
                lambda e: earlier_results(folder / e.name) if folder else ResumeState()
            ):
                shown[environment.key](event)
        except KeyboardInterrupt:
            meter.stop()
            count = sum(one.screen.summary.results for one in shown.values())
            resume_hint = (
                f"; complete it with --resume --out {options.folder}" if options.folder else ""
            )
            echo(f"interrupted after {count:,} results{resume_hint}", err=True)
            return INTERRUPTED
        return _status([one.status(options.backends) for one in shown.values()])


def _status(statuses: Sequence[int]) -> int:
    return 1 if 1 in statuses else max(statuses)


class Shown:
    """The output of one environment."""

    def __init__(
        self,
        environment: WorkerEnvironment,
        options: ClusterOptions,
        meter: Any,
        rows: IO[str] | None,
    ) -> None:
        from ...engine.known import status
        from ...report.terminal import Screen

        self.environment = environment
        folder = None
        if options.folder is not None:
            with writing(options.folder, remedy="name another folder with --out"):
                options.folder.mkdir(parents=True, exist_ok=True)
                folder = subfolder(options.folder, environment.name)
        many = len(environment.workers)
        where = (
            f"{environment.name} · torch {environment.about.get('torch', '?')} · {many} "
            f"worker{'s' if many != 1 else ''}"
        )
        known = status.StatusWriter(folder)
        self.screen: Screen = Screen(
            out=folder, not_tested=options.not_tested, where=where, meter=meter, known=known
        )
        self._handlers, self.writers = _handlers(environment, options, folder, known)
        if rows is not None:
            self._handlers.append(json_writer(rows, environment=environment.name))

    def __call__(self, event: Event) -> None:
        from ...engine.events import dispatch

        dispatch(event, [*self._handlers, self.screen])

    def close(self) -> None:
        for writer in self.writers:
            writer.close()

    def status(self, backends_named: bool) -> int:
        from ...report.terminal import exit_status

        return exit_status(self.screen.summary, asked=backends_named or bool(self.environment.lost))


def _handlers(
    environment: WorkerEnvironment, options: ClusterOptions, folder: Path | None, known: Handler
) -> tuple[list[Handler], list[BundleWriter]]:
    from ...engine.fingerprints import Fingerprints
    from ...report import bundles, page

    if folder is None:
        return [known], []
    about = {
        key: value for key, value in environment.about.items() if key not in ("torch", "threads")
    }
    writer = bundles.writer(folder, resume=options.resume, label=environment.name, about=about)
    fingerprints = Fingerprints(folder, options.fingerprints)
    return [writer, known, fingerprints, page.after(folder)], [writer]
