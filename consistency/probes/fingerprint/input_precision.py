"""How many bits of a factor reach the product, how the others are rounded away, and whether a
factor is split in parts.

One slot of K holds a number with its last bit at 2^-p, the other factor is 1: what survives is what
the hardware read. Numbers with two bits pass a split in two short numbers untouched, so dense ones,
1.0101…b, are asked as well.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...core.dtypes import FORMATS
from . import modes
from .facts import Fact, unknown
from .gemm_probe import SHAPES, Array, GemmProbe, Shape, at
from .query import Ask, NotAnswered

SIDES = {"left": "first", "right": "second"}


def facts(ask: Ask, form: str, dtype: str) -> Iterator[Fact]:
    """``FORM/DTYPE/multiplicand``: one answer for both sides and all shapes, or what differs."""
    question = f"{form}/{dtype}/multiplicand"
    try:
        found = {
            (side, shape): _side(GemmProbe(ask, form, dtype, shape), side)
            for shape in SHAPES
            for side in SIDES
        }
    except NotAnswered as reason:
        yield unknown(question, str(reason))
        return
    full = FORMATS[dtype].precision
    reasons = [
        f"{side} factor at {shape}: {text}"
        for (side, shape), (good, text) in found.items()
        if not good
    ]
    if reasons:
        yield unknown(question, reasons[0])
        return
    answers = {key: text for key, (_, text) in found.items()}
    evidence = (
        f"1 + 2^-p and 1.0101…b cut at p, times 1, p = 1 … {full - 1}; shapes "
        f"{', '.join(map(str, SHAPES))}"
    )
    details = {"bits": str(min(int(text.split()[0]) for text in answers.values()))}
    yield Fact(
        question,
        _together(answers),
        evidence,
        details=details,
        usual=set(answers.values()) == {f"{full} bits"},
    )


def _together(answers: dict[tuple[str, Shape], str]) -> str:
    """One text where all agree; else what each side, or each shape, has."""
    if len(set(answers.values())) == 1:
        return next(iter(answers.values()))
    by_shape = {shape: {answers[side, shape] for side in SIDES} for shape in SHAPES}
    if all(len(texts) == 1 for texts in by_shape.values()):
        return "; ".join(f"{min(texts)} at {shape}" for shape, texts in by_shape.items())
    by_side = {side: {answers[side, shape] for shape in SHAPES} for side in SIDES}
    if all(len(texts) == 1 for texts in by_side.values()):
        return "; ".join(f"{SIDES[side]} factor {min(texts)}" for side, texts in by_side.items())
    return "; ".join(
        f"{SIDES[side]} factor at {shape} {text}" for (side, shape), text in answers.items()
    )


def dense(p: int) -> float:
    """1.0101…b, cut behind bit p, which is set."""
    bits = {*range(2, p + 1, 2), p}
    return 1.0 + float(sum(2.0**-i for i in bits))


def _side(bench: GemmProbe, side: str) -> tuple[bool, str]:
    """(True, answer), or (False, why none)."""
    full = FORMATS[bench.dtype].precision
    ladder = range(1, full)
    count = len(ladder)
    numbers = np.array([1.0 + 2.0**-p for p in ladder] + [dense(p) for p in ladder])
    seen = _passed(bench, side, numbers)
    if seen is None:
        return False, "other results at other places of K or of the output"
    kept = seen == numbers
    sparse, thick = _bits(kept[:count]), _bits(kept[count:])
    if sparse is None or thick is None:
        return False, "some bits are lost, and later ones are not"
    if thick == 1 or not np.isfinite(seen).all():
        return False, "not even 1.5 · 1 comes back"
    if thick == full:
        return True, f"{full} bits"
    if thick < sparse:
        return True, f"{thick} bits, in parts"
    if thick > sparse:
        return False, "dense numbers survive and sparse ones do not"
    ties = np.array(_ties(thick, full))
    seen = _passed(bench, side, ties) if thick > 1 else None
    rounds = modes.of_operand(seen, ties, thick) if seen is not None else None
    return True, f"{thick} bits, {rounds or 'rounded in no known way'}"


def _ties(t: int, full: int) -> tuple[float, ...]:
    """At ``t`` kept bits, with u the last of them: ¾u, ½u and 3/2 u above 1, as positive and
    negative numbers."""
    u = 2.0 ** (1 - t)
    steps = (
        (0.75, 0.5, 1.5) if t + 2 <= full else (0.5, 0.5, 1.5)
    )  # the last bit but one leaves no room for quarters
    return tuple(sign * (1.0 + step * u) for sign in (1.0, -1.0) for step in steps)


def _passed(bench: GemmProbe, side: str, values: Array) -> Array | None:
    """What comes back for each number, or None where it depends on the place in K or in the
    output."""
    found = []
    for slot in (5, bench.shape.k - 2):
        rows, ones = at((slot,), values[:, None], bench.shape.k), np.zeros(bench.shape.k)
        ones[slot] = 1.0
        found.append(bench.rows(rows, ones) if side == "left" else bench.columns(ones, rows))
    same = all(
        np.array_equal(got, np.broadcast_to(found[0][:, :1], got.shape), equal_nan=True)
        for got in found
    )
    return found[0][:, 0] if same else None


def _bits(kept: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int | None:
    """How many significant bits survive; None where a lost bit is followed by one that is not."""
    count = int(np.argmin(kept)) if not kept.all() else len(kept)
    return None if kept[count:].any() else count + 1
