"""``consistency backends`` and ``consistency operators``: what is here, and what is covered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from ...errors import UsageError
from ..echo import echo
from ..options import command, option

FEW = 3  # operators that are shown with their arguments


@command(short_help="List the backends, or why one is unavailable.")
@option("backends", help="Only this one (repeatable; default: all that are known by name).")
@click.option("--json", "as_json", is_flag=True, help="One JSON array instead of text.")
def backends(as_json: bool, backends: Sequence[str]) -> None:
    """List the backends: device, driver, versions, float64 or not, or why one is unavailable here.

    \b
    consistency backends --backend cuda:1+tf32
    consistency backends --backend mine.py:Backend

    Exit status: 0 whatever is available · 2 bad usage
    """
    from ... import backends as known
    from ...backends.listing import describe

    available = [
        known.isolated(b, b.name)
        for b in (known.resolve_all(list(backends)) if backends else known.catalog())
    ]
    for backend in available:
        backend.prefetch(())  # isolated backends load torch in parallel
    rows = [describe(backend) for backend in available]
    for backend in available:
        backend.close()
    if as_json:
        echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        float64 = {True: "float64", False: "no float64", None: ""}[row["float64"]]
        details = " · ".join(
            filter(
                None,
                [
                    row["device"],
                    row["driver"] and f"driver {row['driver']}",
                    *row["versions"],
                    float64,
                ],
            )
        )
        echo(
            f"{'✓' if row['available'] else '–'} {row['name']:<18} "
            f"{details if row['available'] else row['reason']}"
        )


@command(short_help="List the operators: family, dtypes, directions.")
@click.argument("patterns", nargs=-1, metavar="[OPERATOR]...")
@click.option(
    "--family",
    metavar="NAME",
    help="Only one family: unary, matmul, pooling …; a name that is none lists them.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="One object a line: name, family, dtypes, directions, error model, traits.",
)
@click.option(
    "--coverage",
    is_flag=True,
    help="Measure which aten operators and kernels are reached, and say what is missing.",
)
@click.option(
    "--markdown",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --coverage: also write it as a page.",
)
@click.option(
    "--health",
    is_flag=True,
    help="Measure whether the draws are valid, tell something, and differ.",
)
@click.option(
    "--examples",
    type=click.IntRange(min=1),
    default=60,
    show_default=True,
    metavar="N",
    help="With --health: draws.",
)
def operators(
    patterns: Sequence[str],
    family: str | None,
    as_json: bool,
    coverage: bool,
    markdown: Path | None,
    health: bool,
    examples: int,
) -> None:
    """List the operators: family, dtypes, directions.

    OPERATOR is a name as in torch, a glob or family:NAME; default: all.

    \b
    consistency operators 'nn.functional.*pool*'
    consistency operators --family linalg --json
    consistency operators --coverage                   seconds to a minute or two
    consistency operators softmax --health

    Exit status: 0 whatever was measured · 2 bad usage
    """
    from ... import operators as registry
    from ...operators.call_signature import call_signature
    from .coverage import show_coverage, show_health

    selection = [*patterns, *([f"family:{family}"] if family else [])]
    chosen = registry.select(selection or None)
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
            row = {
                "name": o.name,
                "family": o.family,
                "dtypes": o.dtypes,
                "directions": o.directions,
                "error": o.error.kind,
            }
            echo(
                json.dumps(row | {"traits": sorted(o.traits), "available": o.callable is not None})
            )
        return
    for o in chosen:
        absent = "" if o.callable is not None else "   (not in this torch)"
        echo(
            f"{o.name:<44} {o.family:<14} "
            f"{' '.join(o.dtypes)}{'   ↔' if o.differentiable else ''}{absent}"
        )
        if len(chosen) <= FEW and (signature := call_signature(o)):
            echo(f"  {signature}")
    families = len({o.family for o in chosen})
    many = (
        f"{len(chosen)} operator{'s' if len(chosen) != 1 else ''} in {families} "
        f"famil{'ies' if families != 1 else 'y'}"
    )
    echo(f"{many}; ↔ forward and backward", err=True)
