"""``consistency operators --coverage`` and ``--health``: covered and missing operators; the quality
of the draws."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.files import write_named
from ...errors import UsageError
from ..echo import echo
from . import _reach_words

if TYPE_CHECKING:
    from ...engine.case_health import Health
    from ...engine.coverage import Coverage
    from ...operators.declare import Operator
    from ...report.safe_console import SafeConsole

MOST = 30  # missing names to show; --json has all


def console(err: bool = False) -> SafeConsole:
    """Plain text unless this is a terminal."""
    from ...report.safe_console import SafeConsole

    return SafeConsole(stderr=err)


def show_coverage(chosen: Sequence[Operator], as_json: bool, markdown: Path | None) -> None:
    """Measure, and print a summary or JSON, or write the page."""
    from ...engine import coverage
    from .calibrate import _progress

    with _progress(console(err=True), len(chosen)) as step:
        measured = coverage.measure(chosen, step)
    if markdown is not None:
        try:
            write_named(markdown, "\n".join(page(measured)) + "\n")
        except OSError as error:
            raise UsageError(f"cannot write {markdown}: {error.strerror}") from None
    if as_json:
        echo(json.dumps(coverage.as_json(measured)))
    else:
        echo("\n".join(summary(measured)))


def summary(found: Coverage) -> Iterator[str]:
    """The figures, then what is missing, with reasons."""
    directions = found.directions()
    yield (
        f"{len(found.operators):>5} operators in {len(found.families())} families, "
        f"{directions['backward']} of them with backward"
    )
    yield (
        f"{len(found.aten):>5} aten operators reached, {len(found.backward)} of them on the "
        f"way back (of {_all_aten():,})"
    )
    missing, absent = found.missing_kernels, found.unreachable_kernels
    reachable = len(found.kernels) - len(absent)
    done = len(found.kernels) - len(missing)
    (forwards, provable), (backwards, differentiable) = (
        found.certified("forward"),
        found.certified("backward"),
    )
    yield (
        f"{forwards:>5} certified forwards (of {provable}), {backwards} backwards (of "
        f"{differentiable})"
    )
    yield (
        f"{done:>5} of DirectML's {len(found.kernels)} kernels; {reachable} can be reached "
        f"here: {done / max(reachable, 1):.0%}"
    )
    if found.database is None:
        yield f"    – names of PyTorch's operator database: {found.why_no_database}"
    else:
        names = found.missing_names
        yield (
            f"{len(found.database) - len(names):>5} of the {len(found.database)} names in "
            f"PyTorch's operator database"
        )
        yield from _missing("names of the database", names)
    yield from _missing("kernels", missing)
    if found.offered:
        drawn, taken = found.dtype_pairs()
        yield (
            f"{drawn:>5} of the {taken} pairs of operator and dtype that torch takes are drawn: "
            f"{drawn / max(taken, 1):.0%}"
        )
    if found.unvaried:
        yield f"{len(found.unvaried):>5} defaulted arguments are seen in one way only"
    yield from _reach_words.summary(found)
    for name, problem in found.problems.items():
        yield f"  ✗ {name}: {problem}"


def _missing(what: str, reasons: dict[str, str]) -> Iterator[str]:
    if reasons:
        yield f"missing {what}:"
    for name, why in list(reasons.items())[:MOST]:
        yield f"  {name:<44} {why}"
    if len(reasons) > MOST:
        yield f"  … and {len(reasons) - MOST} more (--json)"


def _all_aten() -> int:
    from ...engine.coverage import names_of_aten

    return len(names_of_aten())


def page(found: Coverage) -> Iterator[str]:
    """docs/coverage.md: the declared operators by family, and the missing ones, with reasons."""
    import torch

    version = torch.__version__.partition("+")[0]
    yield "# Coverage"
    yield ""
    yield (
        "For whoever asks whether an operator is tested, in which dtypes, and whether its values "
        "can be proved."
    )
    yield ""
    yield (
        f"Written by `consistency operators --coverage --markdown docs/coverage.md` with torch "
        f"{version}. What is reached was"
    )
    yield (
        "measured through the dispatcher, forward and backward, on a few drawn cases of every "
        "operator."
    )
    yield ""
    missing = found.missing_kernels
    reachable = len(found.kernels) - len(found.unreachable_kernels)
    yield "| | |"
    yield "|---|---|"
    yield f"| operators | {len(found.operators)} |"
    yield f"| with backward | {found.directions()['backward']} |"
    if found.database is not None:
        covered = len(found.database) - len(found.missing_names)
        yield f"| names of PyTorch's operator database | {covered} of {len(found.database)} |"
    yield f"| aten operators reached | {len(found.aten)} |"
    yield f"| … on the way back | {len(found.backward)} |"
    yield f"| overloads of aten reached by a quick run | {len(found.overloads)} |"
    done, total = len(found.kernels) - len(missing), len(found.kernels)
    yield (
        f"| DirectML's kernels | {done} of {total}, of which {reachable} can be reached on the "
        f"CPU |"
    )
    for direction, words in (("forward", "forwards"), ("backward", "backwards")):
        proved, provable = found.certified(direction)
        yield (
            f"| certified {words} (elements of most drawn cases are proved) | {proved} of "
            f"{provable} that have numbers to prove |"
        )
    if found.offered:
        drawn, taken = found.dtype_pairs()
        yield (
            f"| pairs of operator and dtype that torch takes on the CPU | {drawn} of {taken} drawn "
            f"({drawn / max(taken, 1):.0%}) |"
        )
    yield ""
    yield "## Operators by family"
    yield ""
    yield "| family | operators | backward | dtypes | names |"
    yield "|---|---|---|---|---|"
    for family, members in found.families().items():
        dtypes = ", ".join(dict.fromkeys(d for o in members for d in o.dtypes))
        backward = sum(o.differentiable for o in members)
        names = " ".join(f"`{o.name}`" for o in members)
        yield f"| {family} | {len(members)} | {backward} | {dtypes} | {names} |"
    yield from _reach_words.table(found)
    yield from _table("Operators that are not certified", found.uncertified)
    yield from _table("Kernels of DirectML that are not reached", missing)
    yield from _table(
        "Names of PyTorch's operator database that are not declared", found.missing_names
    )
    yield from _table(
        "Pairs of operator and dtype that torch takes and that are not drawn", found.dtypes_missing
    )
    yield from _table("Inputs that are left out", _LEFT_OUT)
    for never, words in (("left", "never left"), ("took", "never took")):
        yield from _table(
            f"Arguments that {words} their default in 50 cases",
            {f"{u.operator}({u.argument})": u.reason for u in found.unvaried if u.missing == never},
        )


_ENDS = "torch's CPU ends the process, or does not return"
_READS = "torch's CPU reads beyond its memory"
_LEFT_OUT = {
    "nn.functional.group_norm (an image in channels_last that tracks no gradient)": _ENDS,
    "nn.functional.grid_sample (bilinear, border or reflection, NaN beside images)": _ENDS,
    "nn.functional.embedding_bag (indices out of range)": _ENDS,
    "nn.functional.multilabel_margin_loss (classes out of range)": _ENDS,
    "floor_divide, remainder and their like (the smallest integer by -1)": _ENDS,
    "fft.fftn, fft.irfftn and their like (several long dims, others inside of them)": _ENDS,
    "nn.functional.scaled_dot_product_attention (keys and values of different lengths)": _READS,
}


def _table(title: str, reasons: dict[str, str]) -> Iterator[str]:
    yield from ("", f"## {title}", "", "| reason | names |", "|---|---|")
    for reason in dict.fromkeys(reasons.values()):
        yield (
            f"| {reason} | "
            f"{' '.join(f'`{name}`' for name, why in reasons.items() if why == reason)} |"
        )


def show_health(chosen: Sequence[Operator], as_json: bool, examples: int) -> None:
    """Measure; print a line for each operator out of bounds, and a summary."""
    from ...engine import case_health
    from .calibrate import _progress

    with _progress(console(err=True), len(chosen)) as step:
        examined: list[case_health.Health] = []
        for operator in chosen:
            step(operator.name)
            examined += case_health.examined([operator], examples=examples)
    if as_json:
        for one in examined:
            echo(json.dumps(one.to_json()))
        return
    echo("\n".join(health_lines(examined)))


def health_lines(found: Sequence[Health]) -> Iterator[str]:
    """The problems of each operator, then the totals."""
    from ...engine.case_health import INCONCLUSIVE, VALID

    for one in found:
        if not one.good:
            why = one.invalid or ", ".join(
                f"{count} × {reason}" for reason, count in one.reasons.most_common(3)
            )
            yield (
                f"✗ {one.operator} {one.dtype}: valid {one.valid_share:.0%}, blind {one.blind} "
                f"of {one.ordinary}: {why}"
            )
    cases, valid = sum(one.drawn for one in found), sum(one.valid for one in found)
    ordinary, blind = sum(one.ordinary for one in found), sum(one.blind for one in found)
    good = sum(one.good for one in found)
    times = sorted(1000.0 * one.seconds for one in found if one.drawn)
    bounds = f"valid ≥ {VALID:.0%}, ordinary draws that can tell nothing ≤ {INCONCLUSIVE:.0%}"
    yield f"{good} of {len(found)} operators within bounds ({bounds})"
    distinct = sum(one.distinct for one in found) / max(cases, 1)
    yield (
        f"{cases:,} draws: {valid / max(cases, 1):.2%} valid, {distinct:.0%} different in more "
        f"than where in the bitstream they lie"
    )
    yield f"{ordinary:,} ordinary ones: {blind / max(ordinary, 1):.2%} can tell nothing"
    if times:
        yield (
            f"{times[len(times) // 2]:.1f} ms a draw for the median operator, {times[-1]:.1f} "
            f"ms for the slowest"
        )
