"""What several results say together: a tail block, lost strides, a race, a wrong gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ...core.detail import ModifiedInput
from ...core.model import Result
from ...core.verdict import VerdictKind
from ...generate.calls.example_calls import DerivedCase
from .repeats import Repeated
from .report import OperatorFault, is_fault

# Sizes of blocks that are tried, the smallest first.
_BLOCKS = tuple(2**k for k in range(2, 13))
_CLEARLY = 2.0**-5  # relative error from which an element is wrong, whatever the dtype


@dataclass(frozen=True)
class Masks:
    """Of one forward case: the shape of its result and which elements are clearly wrong."""

    shape: tuple[int, ...]
    wrong: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def findings_of(
    results: Sequence[tuple[DerivedCase, Result]],
    repeats: Sequence[Repeated],
    names: Sequence[str],
    masks_of: Callable[[DerivedCase], Masks | None],
) -> list[OperatorFault]:
    """The faults that the results show. ``names`` are those of the tensors of a case."""
    faults = [(derived, r) for derived, r in results if is_fault(r)]
    found = _races(faults, repeats)
    if found:
        faults = [pair for pair in faults if pair[1].direction == "backward"]
        faults = [pair for pair in faults if pair[1].verdict.kind is VerdictKind.DIVERGENT]
        if any(r.direction == "forward" for r in found[0].results):
            return found
    forward = [(d, r) for d, r in faults if r.direction == "forward"]
    written = [(d, r) for d, r in forward if isinstance(r.detail, ModifiedInput)]
    if written:
        position = _position(written[0][1])
        name = names[position] if position < len(names) else f"tensor {position}"
        text = f"it writes to {name}, which is only an input"
        found.append(OperatorFault("writes", text, tuple(r for _, r in written)))
    numbers = [(d, r) for d, r in forward if not isinstance(r.detail, ModifiedInput)]
    passing = [
        (d, r) for d, r in results if r.direction == "forward" and r.verdict.tested
        and not is_fault(r)
    ]  # fmt: skip
    found += _forward(numbers, passing, masks_of)
    if 2 * len(forward) > len(forward) + len(passing):
        return found  # of results that are wrong, gradients say nothing new
    broken = {d.case.id for d, _ in forward}
    gradients = [(d, r) for d, r in faults if r.direction == "backward" and d.case.id not in broken]
    return found + _gradients(gradients, results, names)


def _races(
    faults: Sequence[tuple[DerivedCase, Result]], repeats: Sequence[Repeated]
) -> list[OperatorFault]:
    unsteady = [r for _, r in faults if r.verdict.kind is VerdictKind.NONDETERMINISTIC]
    wrong = [one for one in repeats if one.wrong]
    if not unsteady and not wrong:
        return []
    results = [r for one in wrong for r in one.wrong] + unsteady
    text = "the same call gives another answer from run to run"
    if wrong:
        one = wrong[0]
        text += f" ({one.differing} of {one.repeats} repeats of {one.words}, {one.direction})"
    text += (
        ": a race, atomics left out, or memory that is read before it is written; by more than "
        "rounding"
    )
    return [OperatorFault("race", text, tuple(results))]


def _forward(
    faults: Sequence[tuple[DerivedCase, Result]],
    passing: Sequence[tuple[DerivedCase, Result]],
    masks_of: Callable[[DerivedCase], Masks | None],
) -> list[OperatorFault]:
    if not faults:
        return []
    found: list[OperatorFault] = []
    layouts = [(d, r) for d, r in faults if d.kind == "layout"]
    special = [(d, r) for d, r in faults if r.verdict.kind is VerdictKind.SPECIAL_VALUES]
    others = [pair for pair in faults if pair not in layouts and pair not in special]
    tail = _tail(others, passing, masks_of)
    if tail:
        found.append(OperatorFault("tail-block", tail, tuple(r for _, r in _plainest(others))))
        return found
    if layouts and not others:
        where = ", ".join(dict.fromkeys(d.words for d, _ in layouts[:3]))
        text = f"it is wrong only where a tensor is not contiguous ({where}): strides are ignored"
        found.append(OperatorFault("lost-strides", text, tuple(r for _, r in layouts)))
    if others:
        total = len(faults) + len(passing)
        causes = [r.cause for _, r in others if r.cause]
        text = f"{len(faults)} of {total} forward results"
        if causes:
            common = max(set(causes), key=causes.count)
            text += f"; cause: {common}, in {causes.count(common)} of {len(others)}"
        found.append(OperatorFault("wrong-numbers", text, tuple(r for _, r in _plainest(others))))
    if special:
        where = " · ".join(dict.fromkeys(d.words for d, _ in special[:3]))
        text = f"NaN, infinities or zeros come out otherwise than from the reference ({where})"
        found.append(OperatorFault("special-values", text, tuple(r for _, r in special)))
    return found


def _plainest(pairs: Sequence[tuple[DerivedCase, Result]]) -> list[tuple[DerivedCase, Result]]:
    """Those that fail by proof first; of these the example, then the worst."""
    return sorted(
        pairs,
        key=lambda p: (
            not p[1].verdict.fails,
            p[0].kind != "example",
            -p[1].metrics.get("rho_max", math.inf),
        ),
    )


def _gradients(
    faults: Sequence[tuple[DerivedCase, Result]],
    results: Sequence[tuple[DerivedCase, Result]],
    names: Sequence[str],
) -> list[OperatorFault]:
    if not faults:
        return []
    raised = [r for _, r in faults if r.verdict.kind in (VerdictKind.ERROR, VerdictKind.CRASH)]
    if len(raised) == len(faults):
        text = f"backward raises: {raised[0].explanation}"
        return [OperatorFault("no-gradient", text, tuple(raised))]
    count = sum(r.direction == "backward" for _, r in results)
    leaves = [i for i, t in enumerate(faults[0][0].case.tensors) if t.leaf and _floats(t.dtype)]
    wrong = dict.fromkeys(r.output for _, r in faults if r.output)
    of = [_leaf_name(output, leaves, names) for output in wrong]
    who = " and ".join(dict.fromkeys(of)) or "an argument"
    text = (
        f"the gradient of {who} is wrong where forward is right: {len(faults)} of {count} results"
    )
    return [OperatorFault("wrong-gradient", text, tuple(r for _, r in _plainest(faults)))]


def _leaf_name(output: str, leaves: Sequence[int], names: Sequence[str]) -> str:
    number = output.rpartition("/")[2]
    position = leaves[int(number)] if number.isdecimal() and int(number) < len(leaves) else -1
    return names[position] if 0 <= position < len(names) else output


def _floats(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat", "complex"))


def _position(result: Result) -> int:
    return result.detail.position if isinstance(result.detail, ModifiedInput) else 0


def _tail(
    faults: Sequence[tuple[DerivedCase, Result]],
    passing: Sequence[tuple[DerivedCase, Result]],
    masks_of: Callable[[DerivedCase], Masks | None],
) -> str:
    """Where exactly those results fail whose size is no multiple of a block, and only in elements
    after the last full block: the block, in words."""
    kinds = ("example", "sizes")
    main = faults[0][1].dtype if faults else ""
    wrong = [m for d, r in faults if r.dtype == main and d.kind in kinds and (m := masks_of(d))]
    wrong = [m for m in wrong if m.wrong.any()]
    right = [
        m for d, r in passing if r.dtype == main and d.kind in kinds and (m := masks_of(d))
        and math.prod(m.shape)
    ]  # fmt: skip
    if not wrong or not right:
        return ""
    ranks = {len(m.shape) for m in (*wrong, *right)}
    axes: list[int | None] = [None, *(range(-1, -1 - max(ranks), -1) if len(ranks) == 1 else ())]
    for block in _BLOCKS:
        for axis in axes:
            if all(_in_tail(m, axis, block) for m in wrong) and all(
                _size(m, axis) % block == 0 for m in right
            ):
                where = "of the flattened result" if axis is None else f"along dimension {axis}"
                return (
                    f"only elements after the last full block of {block} {where} are wrong: all "
                    f"{len(wrong)} results with such a tail fail, all {len(right)} without pass; "
                    "look at the mask of the last block"
                )
    return ""


def _size(masks: Masks, axis: int | None) -> int:
    return math.prod(masks.shape) if axis is None else masks.shape[axis]


def _in_tail(masks: Masks, axis: int | None, block: int) -> bool:
    size = _size(masks, axis)
    if size % block == 0:
        return False
    begin = size // block * block
    flat = masks.wrong.reshape(-1) if axis is None else masks.wrong
    head = flat[:begin] if axis is None else np.take(flat, range(begin), axis=axis)
    return not head.any()


def masks(actual: torch.Tensor, expected: torch.Tensor) -> Masks | None:
    """Which elements of a result are clearly wrong, whatever the rounding."""
    if actual.shape != expected.shape:
        return None
    a, e = actual.detach().cpu().double().numpy(), expected.detach().cpu().double().numpy()
    with np.errstate(all="ignore"):
        scale = np.nanmax(np.abs(np.where(np.isfinite(e), e, 0.0)), initial=0.0)
        wrong = np.abs(a - e) > _CLEARLY * np.abs(e) + 2.0**-8 * _CLEARLY * scale
    wrong |= np.isnan(a) != np.isnan(e)
    return Masks(tuple(actual.shape), np.asarray(wrong))
