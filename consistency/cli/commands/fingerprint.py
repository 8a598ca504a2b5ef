"""``consistency fingerprint``: how a backend computes, found out by probes; and every float32 input
of one function."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...core.files import write_named
from ...core.reading import read_text
from ...core.text import format_seconds
from ...errors import BundleError, UsageError
from ..echo import echo
from ..options import command, option
from .coverage import console

if TYPE_CHECKING:
    from ...backends.base import Backend
    from ...probes.fingerprint.exhaustive import ExhaustiveComparison
    from ...probes.fingerprint.facts import Fingerprint

WIDEST = 132  # characters
SAVED_EVERY = 10.0  # seconds of a sweep
MAX_SAVED = 1 << 22  # bytes of its file


@command(short_help="How does a backend compute? Precision, rounding, subnormals, functions …")
@option("backends", help="cpu, cuda+tf32, cpu@PYTHON, file.py:attribute … "
    "(repeatable; default: cpu).")  # fmt: skip
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="One JSON object a line and backend, with all facts and their evidence.",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Every fact with its evidence, not only what is remarkable.",
)
@click.option(
    "--exhaustive",
    metavar="NAME",
    help="All float32 inputs of one function (exp, tanh, gelu …) against float64.",
)
@click.option(
    "--range",
    "interval",
    metavar="LOW..HIGH",
    default="",
    help="With --exhaustive: these inputs only, such as 2^-10..2^10.",
)
@click.option(
    "--out", "-o", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help=("With --exhaustive: the result, and where to go on from (default: NAME-BACKEND.json); "
    "the ulp_chart lies beside it."),
)  # fmt: skip
def fingerprint(
    backends: Sequence[str],
    as_json: bool,
    everything: bool,
    exhaustive: str | None,
    interval: str,
    out: Path | None,
) -> None:
    """How does a backend compute? Probes find out, through ordinary operators.

    How many bits of a factor and of a running sum are kept, and how they are rounded; whether
    products are exact; what becomes of subnormal numbers; whether division is correctly rounded;
    how good functions are; whether float64 and int64 are what they are called; corner cases; what
    the bits depend on. What a probe could not establish is listed as such.

    \b
    consistency fingerprint
    consistency fingerprint -b cpu -b cpu+env:ATEN_CPU_CAPABILITY=default
    consistency fingerprint --all                      every fact, with its evidence
    consistency fingerprint --json > cpu.json          to be compared, or read by programs
    consistency fingerprint --exhaustive exp           minutes; goes on where it was interrupted
    consistency fingerprint --exhaustive tanh --range 2^-4..2^4

    docs/fingerprint.md says what each fact means. Exit status: 0; 2 for bad usage; 3 where a
    backend is not available.
    """
    from ...backends import availability, resolve

    if exhaustive is None and (interval or out is not None):
        raise UsageError("--range and --out belong to --exhaustive NAME")
    if out is not None and len(backends) > 1:
        raise UsageError("--out is for one backend; without it each has a file of its own")
    missing = False
    for spec in backends or ("cpu",):
        backend = resolve(spec)
        try:
            backend.prefetch(())
            reason = availability(backend)
            if reason:
                missing = True
                echo(
                    f"consistency fingerprint: {backend.name} is not available: {reason}", err=True
                )
                continue
            if exhaustive is not None:
                all_inputs(backend, exhaustive, interval, out, as_json)
                continue
            taken = _taken(backend)
            if as_json:
                echo(json.dumps(taken.to_json() | {"environment": backend.identity}))
            else:
                echo("\n".join(card(taken, backend, everything)))
        finally:
            backend.close()
    if missing:
        raise SystemExit(3)


def all_inputs(backend: Backend, name: str, interval: str, out: Path | None, as_json: bool) -> None:
    """``--exhaustive``: start or continue a sweep; write the result and its chart."""
    from ...probes.fingerprint.exhaustive import (
        ExhaustiveComparison,
        function_named,
        spans_of,
        sweep,
    )
    from ...probes.fingerprint.query import Ask, NotAnswered
    from ...probes.fingerprint.ulp_map import ulp_chart
    from .calibrate import _progress

    function, spans = function_named(name), spans_of(interval)
    path = out or Path(
        f"{function.rpartition('.')[2]}-{re.sub(r'[^A-Za-z0-9_-]+', '_', backend.name)[:80]}.json"
    )
    comparison = ExhaustiveComparison(function, backend.name, spans, backend.identity)
    if path.exists():
        comparison = _earlier(path, comparison)
    began, before = time.monotonic(), comparison.seconds
    written = began
    try:
        with _progress(console(err=True), comparison.blocks - comparison.upto, "blocks") as step:
            for _ in sweep(Ask(backend), comparison):
                now = time.monotonic()
                comparison.seconds = before + now - began
                speed = comparison.inputs / max(comparison.seconds, 1e-9)
                step(f"{comparison.function}  {speed / 1e6:,.1f} million a second")
                if now - written > SAVED_EVERY:
                    _save(path, json.dumps(comparison.to_json()))
                    written = now
    except NotAnswered as reason:
        raise UsageError(f"--exhaustive {name}: {reason}") from None
    except KeyboardInterrupt:
        echo(f"{path} holds what was done: the same command goes on from there", err=True)
        raise
    finally:
        if comparison.upto:
            _save(path, json.dumps(comparison.to_json()))
    _save(path.with_suffix(".svg"), ulp_chart(comparison))
    echo(json.dumps(comparison.to_json()) if as_json else "\n".join(all_lines(comparison, path)))


def _earlier(path: Path, current: ExhaustiveComparison) -> ExhaustiveComparison:
    from ...probes.fingerprint.exhaustive import ExhaustiveComparison

    try:
        text = read_text(path, MAX_SAVED, follow=True)
        saved = ExhaustiveComparison.from_json(json.loads(text))
    except (OSError, ValueError, RecursionError, BundleError) as error:
        raise UsageError(
            f"{path} is there and cannot be gone on from ({str(error)[:100]}); name another file "
            "with --out"
        ) from None
    for what in ("function", "backend", "spans", "environment"):
        if getattr(saved, what) != getattr(current, what):
            raise UsageError(
                f"{path} was begun with another {what.removesuffix('s')}; name another file with "
                "--out"
            )
    return saved


def _save(path: Path, text: str) -> None:
    """Write atomically: an interruption leaves the old file or the new one."""
    try:
        write_named(path, text + "\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def all_lines(found: ExhaustiveComparison, path: Path) -> Iterator[str]:
    """The terminal output of a sweep."""
    import numpy as np

    def number(pattern: int) -> str:
        return f"{float(np.array(pattern, dtype=np.uint32).view(np.float32)):.9g}"

    rate, share = (
        found.inputs / max(found.seconds, 1e-9) / 1e6,
        found.misrounded / max(found.inputs, 1),
    )
    took = f"{found.seconds:.0f} s ({rate:.0f} million a second)"
    yield f"{found.function} · float32 · {found.backend}: {found.inputs:,} inputs in {took}"
    yield (
        f"  largest error {found.ulp:.6g} ulp; {found.misrounded:,} not correctly rounded "
        f"({100 * share:.2g}%)"
    )
    for kind, count in found.counts.items():
        yield (
            f"  {kind}: {count:,} otherwise, for example of {number(found.examples[kind])} "
            f"({found.examples[kind]:#010x})"
        )
    if found.worst:
        yield "  worst inputs, what came back, error in ulp:"
    for error, value, got in found.worst:
        yield f"    {number(value):>16} {value:#010x}  {number(got):>16} {got:#010x}  {error:.6g}"
    yield f"  {path} · {path.with_suffix('.svg')}"


def _taken(backend: Backend) -> Fingerprint:
    from ...probes.fingerprint.collect import probes, take
    from .calibrate import _progress

    chosen = probes()
    with _progress(console(err=True), len(chosen), "probes") as step:
        return take(backend, chosen, step)


def card(found: Fingerprint, backend: Backend, everything: bool = False) -> Iterator[str]:
    """The terminal output of a fingerprint."""
    from ...probes.fingerprint.sections import sections

    width = min(WIDEST, max(60, shutil.get_terminal_size((WIDEST, 24)).columns))
    ran_on = backend.identity
    shown = [
        ran_on[key] if key == "processor" else f"{key} {ran_on[key]}"
        for key in _SHOWN
        if ran_on.get(key)
    ]
    yield f"{found.backend}: how it computes  ·  {' · '.join(shown)}"
    for section in sections(found, everything):
        yield ""
        yield section.title
        yield from _table(section.header, section.rows, width)
    answers = sum(fact.known for fact in found)
    yield ""
    yield (
        f"{answers} answers, {len(found) - answers} inconclusive  ·  {found.calls} calls in "
        f"{format_seconds(found.seconds)}  ·  {found.hash}"
    )


_SHOWN = ("torch", "processor", "device", "driver", "threads", "blas")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Columns as wide as necessary; the last one wraps, the first one at a third of the width."""
    if header and any(header):
        rows = [header, *rows]
    columns = max(len(row) for row in rows)
    widths = [
        max(
            (len(row[i]) for row in rows if i < len(row) - (i > 0 and len(row) < columns)),
            default=0,
        )
        for i in range(columns)
    ]
    widths[0] = min(widths[0], width // 3)
    min_widths = [min(w, 8) for w in widths]
    for _ in range(sum(widths)):  # shrink and wrap the widest other column
        widest = max(range(columns), key=lambda i: (widths[i] > min_widths[i] and i > 0, widths[i]))
        last = max((len(row[-1]) for row in rows if len(row) == columns), default=0)
        if (
            columns < 3
            or 2 + sum(widths[:-1]) + 2 * (columns - 1) + min(last, 24) <= width
            or widths[widest] <= min_widths[widest]
        ):
            break
        widths[widest] -= 1
    before = ""
    for row in rows:
        cells = list(row)
        first = "" if cells[0] == before and len(cells) == 2 else cells[0]
        before = cells[0]
        last_width = width - 2 - sum(w + 2 for w in widths[: len(cells) - 1])
        parts = [textwrap.wrap(first, widths[0]) or [""]]
        parts += [textwrap.wrap(cell, widths[i]) or [""] for i, cell in enumerate(cells[1:-1], 1)]
        parts += [textwrap.wrap(cells[-1], max(last_width, 24)) or [""]] if len(cells) > 1 else []
        for line in range(max(map(len, parts))):
            texts = [part[line] if line < len(part) else "" for part in parts]
            yield (
                "  " + "  ".join(f"{text:<{widths[i]}}" for i, text in enumerate(texts))
            ).rstrip()
