"""Propose new numbers for groups whose entry is too tight or far too loose, as a tolerances file
that states where they come from."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ...judge.rules import Rules
from .groups import ObservationGroup, joined
from .needs import LEAST_C, Demands
from .score import DTYPE_KEYS, POOR, Calibration

SLACK = 2.0  # × the largest need of a healthy result
WORTH = 0.1  # share of planted faults that a smaller budget must detect in addition
LEAST_LAMBDA = 1.0  # twice the rounding error of random partial sums, in units of √n·u·S
NEW_LAMBDA = 32.0  # × c: a larger error is a cancelling sum, not rounding of the result
LOOSE = 4.0  # margin above which an entry that detects little is too loose
_Solve = Callable[[Demands, float, float], tuple[float, float]]  # (demands, c, λ) → (c, λ)


@dataclass(frozen=True, slots=True)
class ToleranceChange:
    """New bounds for one operator, dtype key and direction; an empty ``backend`` means all
    backends.

    ``c`` is in ulp, ``lam`` a factor, both for this direction; ``was`` holds the present values,
    ``noticed`` the smallest detected share of the decisive faults before and after. ``reason`` is
    ``too tight``, ``too loose``, or ``as before`` for gradients that must not follow a changed
    forward. ``used`` is the share of the new budget that the ``worst`` of the ``results`` needs.
    """

    operator: str
    dtype: str
    direction: str
    backend: str
    c: float
    lam: float
    was: tuple[float, float]
    noticed: tuple[float, float]
    reason: str
    source: str
    results: int = 0
    worst: str = ""
    used: float = 0.0


def changes(calibration: Calibration, rules: Rules, about: str) -> list[ToleranceChange]:
    """The proposed changes, by operator. ``about`` names what was measured: seeds, versions,
    backends."""
    classes: dict[tuple[str, str, str], list[ObservationGroup]] = defaultdict(list)
    for group in calibration.groups.values():
        if not group.stand_in and group.results:
            classes[
                group.kind.operator,
                DTYPE_KEYS.get(group.kind.dtype, group.kind.dtype),
                group.kind.direction,
            ].append(group)
    result = [
        change
        for (_, dtype, _), groups in classes.items()
        for change in _changes_of_class(dtype, groups, about)
    ]
    families = {group.kind.operator: group.family for group in calibration.groups.values()}
    return sorted(
        [*result, *_unchanged_gradients(result, rules, families)],
        key=lambda one: (one.backend, one.operator, one.dtype),
    )


def _changes_of_class(
    dtype: str, groups: list[ObservationGroup], about: str
) -> Iterator[ToleranceChange]:
    tight = [group for group in groups if group.rho > 1.0]
    at_fault, present = (
        {group.kind.backend for group in tight},
        {group.kind.backend for group in groups},
    )
    ruled_alike = len({(group.rule.c, group.rule.lam) for group in groups}) == 1
    if tight and (not ruled_alike or (len(at_fault) == 1 and len(present) > 1)):
        for backend in sorted(at_fault):  # the others do not need it
            own_groups = [group for group in groups if group.kind.backend == backend]
            yield _change(dtype, own_groups, backend, _widen_bounds, "too tight", about)
    elif tight:
        yield _change(dtype, groups, "", _widen_bounds, "too tight", about)
    elif ruled_alike and joined(groups).shares.poorest() < POOR:
        yield from _tighten(dtype, groups, about)


def _tighten(dtype: str, groups: list[ObservationGroup], about: str) -> Iterator[ToleranceChange]:
    """Smaller numbers, and the present ones for a backend that alone needs them."""
    needy = {group.kind.backend for group in groups if group.margin <= LOOSE}
    unaffected = [group for group in groups if group.kind.backend not in needy]
    if len(needy) > 1 or not unaffected:
        return
    change = _change(dtype, unaffected, "", _narrow_bounds, "too loose", about, judged=groups)
    if change.noticed[1] > change.noticed[0] + WORTH:
        yield change
        rule = groups[0].rule
        for backend in needy:
            source = f"as before ({rule.place}): {rule.source}"
            yield replace(
                change, backend=backend, c=rule.c, lam=rule.lam, reason="as before", source=source
            )


def _change(
    dtype: str,
    groups: Sequence[ObservationGroup],
    backend: str,
    solve: _Solve,
    reason: str,
    about: str,
    judged: Sequence[ObservationGroup] = (),
) -> ToleranceChange:
    """``judged``: the groups that faults were planted into, if not ``groups``."""
    total = joined(groups)
    rule, kind, shares = total.rule, total.kind, joined(judged or groups).shares
    c, lam = solve(total.demands, max(rule.c, LEAST_C), rule.lam)
    noticed = shares.poorest(), shares.poorest_at(c, lam)
    backends = ", ".join(dict.fromkeys(group.kind.backend for group in groups))
    return ToleranceChange(
        kind.operator, dtype, kind.direction, backend, c, lam, (rule.c, rule.lam), noticed, reason,
        f"{about}, backends {backends}",
        total.results, total.worst, total.demands.factor(c, lam),
    )  # fmt: skip


def _widen_bounds(demands: Demands, c: float, lam: float) -> tuple[float, float]:
    """Raise whichever of c and λ must grow by the smaller factor, times the slack; a λ of 0 grows
    only where c becomes too large."""
    more_c, more_lam = demands.c(lam), demands.lam(c)
    by_c = more_c / c
    by_lam = more_lam / lam if lam > 0.0 else (NEW_LAMBDA if math.isfinite(more_lam) else math.inf)
    if by_lam < by_c:
        return c, _up(SLACK * more_lam)
    return (_up(SLACK * more_c), lam) if math.isfinite(more_c) else (c, lam)


def _narrow_bounds(demands: Demands, c: float, lam: float) -> tuple[float, float]:
    """Without accumulation, the needed c times the slack; else as much of c as a quarter of λ
    leaves, and the λ this needs.

    A nonzero λ is never dropped, nor set below the roundings of the partial sums: the cases at hand
    may have had lucky cancellations.
    """
    if lam == 0.0:
        return min(c, _up(SLACK * demands.c(0.0))), 0.0
    c_needed = demands.c(lam / LOOSE)
    small = min(c, _up(c_needed)) if math.isfinite(c_needed) else c
    need = demands.lam(max(small / SLACK, LEAST_C))
    return (
        (small, min(lam, max(_up(SLACK * need), LEAST_LAMBDA))) if math.isfinite(need) else (c, lam)
    )


def _up(value: float) -> float:
    """Round up to the next power of two: such numbers are no more precise, and operators can share
    an entry."""
    if not value or not math.isfinite(value):
        return value
    mantissa, exponent = math.frexp(value * (1.0 - 1e-9))
    return math.ldexp(1.0 if mantissa > 0.5 else 0.5, exponent)


def _unchanged_gradients(
    proposed: Sequence[ToleranceChange], rules: Rules, families: dict[str, str]
) -> Iterator[ToleranceChange]:
    """Keep the present bounds of gradients: they are twice the forward's and would change with
    it."""
    covered = {(one.operator, one.dtype, one.direction, one.backend) for one in proposed}
    for one in proposed:
        changed = one.direction == "forward" and one.reason != "as before"
        if changed and (one.operator, one.dtype, "backward", one.backend) not in covered:
            where = {
                "family": families[one.operator],
                "direction": "backward",
                "backend": one.backend or "cpu",
            }
            rule = rules.rule(one.operator, one.dtype, **where)
            source = f"as before ({rule.place}): {rule.source}"
            yield replace(
                one,
                direction="backward",
                c=rule.c,
                lam=rule.lam,
                was=(rule.c, rule.lam),
                reason="as before",
                source=source,
            )


def proposal(found: Sequence[ToleranceChange], header: Sequence[str] = ()) -> str:
    """The changes as a tolerances file based on the packaged one, to be used in a run or merged by
    hand."""
    lines = [*(f"# {line}".rstrip() for line in header), "extends: packaged", ""]
    everywhere = [one for one in found if not one.backend]
    if everywhere:
        lines += ["operators:", *_block(everywhere, "  ")]
    elsewhere = [one for one in found if one.backend]
    if elsewhere:
        lines += ["", "backends:"] if everywhere else ["backends:"]
        for backend in sorted({one.backend for one in elsewhere}):
            lines += [f"  {_quoted(backend)}:", "    operators:"]
            lines += _block([one for one in elsewhere if one.backend == backend], "      ")
    return "\n".join(lines) + "\n"


def _block(proposed: Iterable[ToleranceChange], indent: str) -> Iterator[str]:
    """The lines of operators; those with the same numbers share an entry."""
    by_operator: dict[str, list[ToleranceChange]] = defaultdict(list)
    for one in proposed:
        by_operator[one.operator].append(one)
    alike: dict[tuple[object, ...], list[list[ToleranceChange]]] = defaultdict(list)
    for operator_changes in by_operator.values():
        alike[
            tuple(
                (one.dtype, one.direction, one.c, one.lam, one.was, one.reason)
                for one in operator_changes
            )
        ].append(operator_changes)
    for shared in alike.values():
        yield f"{indent}{', '.join(operator_changes[0].operator for operator_changes in shared)}:"
        lines = [list(line) for line in zip(*shared, strict=True)]
        yield from (
            f"{indent}  {_numbers(line)}" for line in lines if line[0].direction == "forward"
        )
        backward = [line for line in lines if line[0].direction == "backward"]
        if backward:
            yield f"{indent}  backward:"
            yield from (f"{indent}    {_numbers(line)}" for line in backward)


def _numbers(shared: Sequence[ToleranceChange]) -> str:
    """One line of the file, for operators that share it."""
    one = max(shared, key=lambda one: one.used)
    source, remark = one.source, ""
    if one.reason != "as before":
        results = sum(change.results for change in shared)
        worst = f"worst {one.worst}" if one.worst else "none differs"
        source = (
            f"calibrated: max over {results:,} results, {one.source}; {worst}; slack {SLACK:g}x"
        )
        now, then = (min(change.noticed[i] for change in shared) for i in range(2))
        remark = (
            f"   # {one.reason}: was c {one.was[0]:g}, lambda {one.was[1]:g}; notices "
            f"{now:.0%}, then {then:.0%}"
        )
    return (
        f"{one.dtype}: {{c: {_plain(one.c)}, lambda: {_plain(one.lam)}, source: "
        f"{_quoted(source)}}}{remark}"
    )


def _plain(value: float) -> str:
    """A number that YAML 1.1 reads as a number: it reads ``1e-05`` as text."""
    text = f"{value:.12g}"
    return (
        f"{value:.1f}".rstrip("0").rstrip(".")
        if "e+" in text
        else f"{value:.20f}".rstrip("0")
        if "e" in text
        else text
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
