"""``consistency sweep``: error against one dimension, or against magnitude."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ...core.files import write_json, write_text
from ...core.folders import is_ours
from ...errors import UsageError
from ..echo import echo
from ..options import FOLDER, command, option


@command(
    short_help=(
        "Error against one dimension or magnitude: backends and formulas side by side, as "
        "a picture."
    )
)
@click.argument("operator", metavar="OPERATOR")
@click.option(
    "--vary",
    metavar="NAME=LOW..HIGH",
    help="What is varied, e.g. K=1..4096, K=1..512:1, N=1,8,384, scale=2^-20..2^7.",
)
@click.option(
    "--fix",
    "fixed",
    multiple=True,
    metavar="NAME=N",
    help="Another size for what is not varied (repeatable).",
)
@option("backends", help="Contestants (repeatable) [default: cpu and numpy].")
@click.option(
    "--formula",
    "formulas",
    multiple=True,
    metavar="[NAME=]FORMULA",
    help="A contestant on the first backend, e.g. x @ W.T + b.",
)
@option("dtypes", help="float32, float64 … (repeatable) [default: both].")
@click.option(
    "--points",
    type=click.IntRange(min=2),
    default=48,
    show_default=True,
    metavar="N",
    help="About so many points of a span.",
)
@option("seed", default=0)
@option("tolerances")
@click.option(
    "--out",
    "-o",
    type=FOLDER,
    help="Folder [default: reports/sweep-OPERATOR].",
)
@click.option(
    "--png", is_flag=True, help="Also as PNG; needs Chromium, Chrome or Edge on the PATH."
)
def sweep(
    operator: str, vary: str | None, fixed: Sequence[str], backends: Sequence[str],
    formulas: Sequence[str], dtypes: Sequence[str],
    points: int, seed: int, tolerances: str | None, out: Path | None, png: bool,
) -> None:  # fmt: skip
    """Error against one dimension or magnitude: every backend and formula, float32 and float64,
    with what rounding explains.

    The error of each contestant is measured against float64 (of float64: against a wider
    computation). Drawn beside it: the budget, lines that grow as √n and n, and the share of
    elements whose bits differ from the first contestant's. Writes sweep.svg and sweep.json.

    \b
    consistency sweep linear                     F.linear against x @ W.T + b, in_features 1 to 2048
    consistency sweep sum --vary N=1..1048576 --backend cpu --backend cuda --backend numpy
    consistency sweep softmax --formula 'exp(x) / exp(x).sum(-1, True)'
    consistency sweep exp --vary scale=2^-20..2^7

    \b
    Exit status: 0 every error within its budget · 1 a contestant leaves it · 2 bad usage
    3 nothing could be measured
    """
    from ... import backends as known
    from ...judge import tolerances as _tolerances
    from ...probes.sweep import findings, measure, parse_vary, plan_of
    from ...probes.sweep.chart import chart

    plan = plan_of(operator)
    span = parse_vary(vary or plan.vary, points)
    names = (*plan.usual, "scale")
    sizes = dict(_fixed(text, names) for text in fixed)
    if span.name not in names:
        raise UsageError(f"--vary {span.name}: {plan.operator} has {', '.join(names)}")
    if span.name != "scale" and any(value != int(value) for value in span.values):
        raise UsageError(f"--vary {span.name}: sizes are whole numbers")
    resolved = known.resolve_all(list(backends) or ["cpu", "numpy"])
    for backend in resolved:
        reason = known.availability(backend)
        if reason:
            raise UsageError(f"backend {backend.name!r} cannot be used here: {reason}")
    written = dict(_formula(text) for text in formulas) or dict(plan.formulas)
    chosen = _dtypes(dtypes, plan)
    folder = out or Path("reports") / f"sweep-{plan.operator.rpartition('.')[2]}"
    _prepare(folder)
    from ...report.safe_console import SafeConsole

    with SafeConsole(stderr=True).status("measuring …") as status:
        series = measure(
            plan, span, resolved, written, fixed=sizes, dtypes=chosen, seed=seed,
            rules=_tolerances.load(tolerances),
            progress=lambda done, total: status.update(f"{done} of {total} points"),
        )  # fmt: skip
    facts = findings(series)
    title = f"{plan.operator}: {', '.join(series.contestants)}"
    files = _write(folder, chart(series, facts, title), series, facts, png=png)
    for dtype in series.dtypes:
        echo(dtype)
        for fact in facts:
            if fact.dtype == dtype:
                echo(f"  {fact.contestant:<20} {fact.words}")
    echo(f"wrote {', '.join(map(str, files))}")
    tested = [fact for fact in facts if fact.worst == fact.worst]
    sys.exit(3 if not tested else 1 if any(fact.worst > 1.0 for fact in tested) else 0)


def _fixed(text: str, names: Sequence[str]) -> tuple[str, float]:
    from ...errors import did_you_mean
    from ...probes.sweep.points import parse_vary

    variation = parse_vary(text)
    if variation.name not in names:
        raise UsageError(
            f"--fix {text!r:.60}: no dimension "
            f"{variation.name!r}"
            f"{did_you_mean(variation.name, names) or '; known: ' + ', '.join(names)}"
        )
    if len(variation.values) != 1 or (
        variation.name != "scale" and variation.values[0] != int(variation.values[0])
    ):
        raise UsageError(f"--fix {text!r:.60}: one number, such as {variation.name}=512")
    return variation.name, variation.values[0]


def _formula(text: str) -> tuple[str, str]:
    """``NAME=FORMULA``, or a formula that is its own name."""
    name, equals, formula = text.partition("=")
    named = equals and name.strip().replace(" ", "").isidentifier()
    return (name.strip(), formula.strip()) if named else (text.strip(), text.strip())


def _dtypes(requested: Sequence[str], plan: Any) -> list[str]:
    from ...core.dtypes import FORMATS
    from ...errors import did_you_mean

    for name in requested:
        if name not in FORMATS or name not in plan.declared.dtypes:
            floating = [d for d in plan.declared.dtypes if d in FORMATS]
            raise UsageError(
                f"--dtype {name!r:.40}"
                f"{did_you_mean(name, floating) or '; known: ' + ', '.join(floating)}"
            )
    return list(requested) or ["float32", "float64"]


def _prepare(folder: Path) -> None:
    """Fail before the work, not after, if the folder cannot be written, or is another one's."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_ours(folder, "sweep", "sweep.json", "name another folder with -o")
    except OSError as error:
        raise UsageError(
            f"cannot write {folder}: {error.strerror}; name another folder with -o"
        ) from None


def _write(
    folder: Path, picture: str, series: Any, facts: Sequence[Any], *, png: bool
) -> list[Path]:
    from dataclasses import asdict

    numbers = [{k: v for k, v in asdict(fact).items() if v == v} for fact in facts]
    data = {
        "operator": series.plan.operator, "vary": series.vary.name, "fixed": dict(series.fixed),
        "findings": numbers,
        "measurements": [m.to_json() for m in series.measurements],
    }  # fmt: skip
    svg, json_path = folder / "sweep.svg", folder / "sweep.json"
    try:
        write_json(json_path, data)
        write_text(svg, picture)
    except OSError as error:
        raise UsageError(
            f"cannot write {folder}: {error.strerror}; name another folder with -o"
        ) from None
    if not png:
        return [svg, json_path]
    from ...report.screenshot import render_png

    return [svg, render_png(svg, folder / "sweep.png"), json_path]
