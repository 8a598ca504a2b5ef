"""``consistency calibrate``: which c and λ healthy results need, and what the entries of a
tolerances file fail to notice."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...core.files import check_writable, write_named
from ...core.reading import read_text
from ...core.text import format_seconds, pluralize
from ...errors import BundleError, UsageError
from ..options import command, option

if TYPE_CHECKING:
    from rich.console import Console

    from ...core.model import Case
    from ...engine.calibrate import Calibration, CalibrationPlan
    from ...report.safe_console import SafeConsole

SECONDS_BETWEEN_LINES = 10.0  # of progress, where there is no terminal
BAR_AFTER = 2.0  # seconds


def _seeds(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        seeds = tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a list of whole numbers; write 0,1,2") from None
    return tuple(dict.fromkeys(seeds))


_file = click.Path(path_type=Path, dir_okay=False)


@command(short_help="Measure which tolerances healthy results need, and what they fail to notice.")
@click.argument("operators", nargs=-1, metavar="[OPERATOR]...")
@option("backends", help=("A backend whose results are healthy: cpu, cpu+onednn=off, numpy … "
"(repeatable; "
    "default: all available)."))  # fmt: skip
@option("dtypes", help="float32, float64, float16, bfloat16 (repeatable; default: all).")
@option("directions")
@option(
    "examples",
    default=10,
    show_default=True,
    metavar="N",
    help="Cases per operator, dtype and seed.",
)
@click.option(
    "--seeds",
    callback=_seeds,
    default="0,1,2",
    show_default=True,
    metavar="N,N",
    help="Other inputs for each of them.",
)
@click.option(
    "--tolerances", metavar="FILE", help="The file to score, in place of the packaged one."
)
@click.option(
    "--stand-in", "stand_ins", multiple=True, metavar="SPEC",
    help=("Also score the entries for a backend that is not here (directml, cuda), on what the "
    "CPU computed (repeatable)."),
)  # fmt: skip
@click.option(
    "--json",
    "json_file",
    type=_file,
    metavar="FILE",
    help="Write one object a line per operator, dtype, direction, backend.",
)
@click.option(
    "--proposal",
    type=_file,
    metavar="FILE",
    help="Write a tolerances file with other numbers where they are called for.",
)
@click.option(
    "--worst", "worst", type=click.Path(path_type=Path, dir_okay=False), multiple=True,
    metavar="FILE",
    help=("Also the worst inputs that fingerprint --exhaustive found and wrote to FILE "
    "(repeatable)."),
)  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="Show every line of every list.")
def calibrate(
    operators: Sequence[str], backends: Sequence[str], dtypes: Sequence[str],
    directions: Sequence[str], examples: int,
    seeds: tuple[int, ...], tolerances: str | None, stand_ins: Sequence[str],
    json_file: Path | None, proposal: Path | None,
    worst: Sequence[Path], everything: bool,
) -> None:  # fmt: skip
    """Measure which tolerances healthy results need, and what they fail to notice.

    The backends are taken to be healthy. For every entry of tolerances.yaml: the largest error in
    it (ρ, × budget) and the margin above it (2: both numbers could be halved), and the share of
    faults noticed that were planted into the same results: 16 ulp in one element and in all, inputs
    of TF32 and of bfloat16, a bias, truncation. What is too tight, or too loose to notice anything,
    goes with other numbers into --proposal, never into tolerances.yaml itself.

    \b
    consistency calibrate matmul 'nn.functional.conv*' --dtype float32
    consistency calibrate --seeds 0,1,2,3 --examples 20 --proposal proposal.yaml
    consistency calibrate --backend cpu --stand-in directml
    consistency run --tolerances proposal.yaml         try what was proposed

    docs/calibration.md tells how to read it. Exit status: 0; 2 for bad usage.
    """
    from ...engine import calibrate as work
    from ...engine import engine
    from ...judge.tolerances import load
    from ...report import calibration as report
    from ...report.safe_console import SafeConsole

    chosen = engine.configure(
        list(operators) or None, list(backends) or None, list(dtypes) or None,
        list(directions) or engine.DIRECTIONS, examples,
        seeds[0], tolerances=tolerances,
    )  # fmt: skip
    plan = work.CalibrationPlan(
        chosen, seeds, tuple(stand_ins), tuple(_worst(path) for path in worst)
    )
    if not plan.pairs:
        raise UsageError(
            "nothing to calibrate: integers and booleans are compared exactly; choose a floating "
            "dtype"
        )
    for path in filter(None, (json_file, proposal)):
        _check_writable(path)
    console = SafeConsole()
    about = _about(plan)
    console.print(
        f"{pluralize(len(plan.pairs), 'operator × dtype', 'operators × dtypes')}, {about}",
        style="bold",
    )
    console.print(f"  backends taken to be healthy: {', '.join(b.name for b in chosen.backends)}")
    started = time.monotonic()
    calibration = _observed(plan, console)
    entries, limit = calibration.entries(), 10**6 if everything else report.SHOWN
    changes = work.changes(calibration, chosen.tolerances, about)
    console.print()
    for line in report.table(entries[:limit]):
        console.print(line)
    if len(entries) > limit:
        console.print(f"… and {len(entries) - limit} more entries (--all)", style="dim")
    for block in (
        report.too_tight(calibration.too_tight(), limit),
        report.nearly(calibration.nearly(), limit),
        report.problems(calibration, limit),
        report.inadequate(entries, limit),
    ):
        lines = list(block)
        console.print(*([""] if lines else []), *lines, sep="\n", end="\n" if lines else "")
    console.print()
    if json_file is not None:
        write_named(json_file, "".join(f"{row}\n" for row in report.rows(calibration)))
    written = ""
    if proposal is not None and changes:
        header = [
            f"Proposed by `consistency calibrate`: {about}.",
            "Merge by hand what is convincing.",
        ]
        write_named(proposal, work.proposal(changes, header))
        load(proposal)  # a proposal that does not load would be a bug
        written = str(proposal)
    console.print(report.noticed(calibration))
    console.print(report.proposed(changes, written))
    seconds = time.monotonic() - started
    count = pluralize(len(entries), "entry", "entries")
    console.print(
        f"{calibration.results:,} healthy results · {count} · {format_seconds(seconds)}",
        style="bold",
    )


def _worst(path: Path) -> Case:
    """The case made of the worst inputs of a function."""
    from ...core.model import Case
    from ...probes.fingerprint.exhaustive import ExhaustiveComparison

    try:
        comparison = ExhaustiveComparison.from_json(
            json.loads(read_text(path, 1 << 22, follow=True))
        )
    except OSError as error:
        raise UsageError(f"--worst {path}: {error.strerror}") from None
    except (ValueError, RecursionError, BundleError) as error:
        raise UsageError(
            f"--worst {path}: not a result of fingerprint --exhaustive ({str(error)[:80]})"
        ) from None
    return Case(comparison.function, "float32", (comparison.literal(),))


def _check_writable(path: Path) -> None:
    """Fail before minutes of work, not after, if a file cannot be written."""
    try:
        check_writable(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _about(plan: CalibrationPlan) -> str:
    """``seeds 0,1,2 of 10 cases, torch 2.13.0 CPU AVX512``: the origin of the numbers."""
    import torch

    capability = torch.backends.cpu.get_cpu_capability()
    words = (
        f"seed{'s' if len(plan.seeds) > 1 else ''} {','.join(map(str, plan.seeds))} of "
        f"{plan.config.examples} cases"
    )
    return f"{words}, torch {torch.__version__.partition('+')[0]} CPU {capability}"


def _observed(plan: CalibrationPlan, console: SafeConsole) -> Calibration:
    from ...engine.calibrate import Calibration, observations

    calibration = Calibration()
    with _progress(console, plan.cases) as step:
        for case, observed in observations(plan):
            calibration.add(observed)
            step(case.operator)
    return calibration


@contextlib.contextmanager
def _progress(console: Console, total: int, what: str = "cases") -> Iterator[Callable[[str], None]]:
    """A function to call after each case: a progress bar on a terminal, elsewhere an occasional
    line."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(bar_width=None),
        TextColumn("{task.completed:,} / {task.total:,}"),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )
    bar = Progress(
        *columns, console=console, transient=True, speed_estimate_period=10, refresh_per_second=4
    )
    task = bar.add_task("", total=total)
    started = last = time.monotonic()
    done, shown = 0, False

    def step(operator: str) -> None:
        nonlocal done, last, shown
        done += 1
        now = time.monotonic()
        if console.is_terminal:
            bar.update(task, advance=1, description=operator)
            if not shown and now - started > BAR_AFTER:
                bar.start()
                shown = True
        elif now - last > SECONDS_BETWEEN_LINES:
            last = now
            console.print(f"  {done:,} / {max(total, done):,} {what}  {operator}")
            sys.stdout.flush()

    try:
        yield step
    finally:
        if shown:
            bar.stop()
