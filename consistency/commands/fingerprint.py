"""``consistency fingerprint``: how a backend computes, found out by probes; and every float32 input of one function."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from .coverage import console

if TYPE_CHECKING:
    from ..backends.base import Backend
    from ..fingerprint.facts import Fingerprint

WIDEST = 132  # characters


@click.command(short_help="How does a backend compute? Precision, rounding, subnormals, functions …")
@click.option(
    "--backend", "-b", "backends", multiple=True, metavar="SPEC", help="cpu, cuda+tf32, cpu@PYTHON, file.py:attribute … "
    "(repeatable; default: cpu).",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line and backend, with all facts and their evidence.")
@click.option("--all", "everything", is_flag=True, help="Every fact with its evidence, not only what is remarkable.")
def fingerprint(backends: Sequence[str], as_json: bool, everything: bool) -> None:
    """How does a backend compute? Probes find out, through ordinary operators.

    How many bits of a factor and of a running sum are kept, and how they are rounded; whether products are exact; what becomes
    of subnormal numbers; whether division is correctly rounded; how good functions are; whether float64 and int64 are what they
    are called; corner cases; what the bits depend on. What a probe could not establish is listed as such.

    \b
    consistency fingerprint
    consistency fingerprint -b cpu -b cpu+env:ATEN_CPU_CAPABILITY=default
    consistency fingerprint --all                      every fact, with its evidence
    consistency fingerprint --json > cpu.json          to be compared, or read by programs

    docs/fingerprint.md says what each fact means. Exit status: 0; 2 for bad usage; 3 where a backend is not available.
    """
    from ..backends import availability, resolve

    missing = False
    for spec in backends or ("cpu",):
        backend = resolve(spec)
        try:
            backend.ahead(())
            reason = availability(backend)
            if reason:
                missing = True
                click.echo(f"consistency fingerprint: {backend.name} is not available: {reason}", err=True)
                continue
            found = _taken(backend)
            if as_json:
                click.echo(json.dumps(found.to_json() | {"environment": backend.identity}))
            else:
                click.echo("\n".join(card(found, backend, everything)))
        finally:
            backend.close()
    if missing:
        raise SystemExit(3)


def _taken(backend: Backend) -> Fingerprint:
    from ..fingerprint.card import probes, take
    from .calibrate import _progress

    chosen = probes()
    with _progress(console(err=True), len(chosen)) as step:
        return take(backend, chosen, step)


def card(found: Fingerprint, backend: Backend, everything: bool = False) -> Iterator[str]:
    """The lines of the terminal."""
    from ..fingerprint.sections import sections

    width = min(WIDEST, max(60, shutil.get_terminal_size((WIDEST, 24)).columns))
    ran_on = backend.identity
    shown = [ran_on[key] if key == "processor" else f"{key} {ran_on[key]}" for key in _TOLD if ran_on.get(key)]
    yield f"{found.backend}: how it computes  ·  {' · '.join(shown)}"
    for section in sections(found, everything):
        yield ""
        yield section.title
        yield from _table(section.header, section.rows, width)
    known = sum(fact.known for fact in found)
    yield ""
    yield f"{known} answers, {len(found) - known} inconclusive  ·  {found.calls} calls in {found.seconds:.1f} s  ·  {found.hash}"


_TOLD = ("torch", "processor", "device", "driver", "threads", "blas")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Columns as wide as they need to be; the last one wraps, the first one at a third of the width."""
    if header and any(header):
        rows = [header, *rows]
    columns = max(len(row) for row in rows)
    widths = [
        max((len(row[i]) for row in rows if i < len(row) - (i > 0 and len(row) < columns)), default=0) for i in range(columns)
    ]
    widths[0] = min(widths[0], width // 3)
    if columns > 2 and sum(widths) + 2 * columns > width:
        widths[1] = min(widths[1], width // 3)
    before = ""
    for row in rows:
        cells = list(row)
        first = "" if cells[0] == before and len(cells) == 2 else cells[0]
        before = cells[0]
        rest = width - 2 - sum(w + 2 for w in widths[: len(cells) - 1])
        parts = [textwrap.wrap(first, widths[0]) or [""]]
        parts += [textwrap.wrap(cell, widths[i]) or [""] for i, cell in enumerate(cells[1:-1], 1)]
        parts += [textwrap.wrap(cells[-1], max(rest, 24)) or [""]] if len(cells) > 1 else []
        for line in range(max(map(len, parts))):
            texts = [part[line] if line < len(part) else "" for part in parts]
            yield ("  " + "  ".join(f"{text:<{widths[i]}}" for i, text in enumerate(texts))).rstrip()
