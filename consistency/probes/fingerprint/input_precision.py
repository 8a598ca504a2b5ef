"""How many bits of a factor enter the product, how the others are rounded, and whether a factor is
split in parts.

One position of K holds a number with its last bit at 2^-p, and the other factor is 1, so the result
is the number that the hardware used. A number with two set bits survives a split in two shorter
numbers, so dense numbers, 1.0101…b, are tested as well.
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
    """``FORM/DTYPE/multiplicand``: one answer for both sides and all shapes, or one for each."""
    question = f"{form}/{dtype}/multiplicand"
    try:
        results = {
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
        for (side, shape), (good, text) in results.items()
        if not good
    ]
    if reasons:
        yield unknown(question, reasons[0])
        return
    answers = {key: text for key, (_, text) in results.items()}
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
    """One text if all agree; otherwise one for each shape or side."""
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
    """1.0101…b, cut after bit p, which is set."""
    bits = {*range(2, p + 1, 2), p}
    return 1.0 + float(sum(2.0**-i for i in bits))


def _side(bench: GemmProbe, side: str) -> tuple[bool, str]:
    """(True, answer), or (False, reason)."""
    full = FORMATS[bench.dtype].precision
    ladder = range(1, full)
    count = len(ladder)
    numbers = np.array([1.0 + 2.0**-p for p in ladder] + [dense(p) for p in ladder])
    results = _passed(bench, side, numbers)
    if results is None:
        return False, "other results at other places of K or of the output"
    is_kept = results == numbers
    sparse_bits, dense_bits = _bits(is_kept[:count]), _bits(is_kept[count:])
    if sparse_bits is None or dense_bits is None:
        return False, "some bits are lost, and later ones are not"
    if dense_bits == 1 or not np.isfinite(results).all():
        return False, "not even 1.5 · 1 comes back"
    if dense_bits == full:
        return True, f"{full} bits"
    if dense_bits < sparse_bits:
        return True, f"{dense_bits} bits, in parts"
    if dense_bits > sparse_bits:
        return False, "dense numbers survive and sparse ones do not"
    ties = np.array(_ties(dense_bits, full))
    results = _passed(bench, side, ties) if dense_bits > 1 else None
    rounds = modes.of_operand(results, ties, dense_bits) if results is not None else None
    return True, f"{dense_bits} bits, {rounds or 'rounded in no known way'}"


def _ties(t: int, full: int) -> tuple[float, ...]:
    """±(1 + ¾u), ±(1 + ½u) and ±(1 + 3/2 u), where u is the last of ``t`` kept bits."""
    u = 2.0 ** (1 - t)
    # Quarters of u need two further bits.
    steps = (0.75, 0.5, 1.5) if t + 2 <= full else (0.5, 0.5, 1.5)
    return tuple(sign * (1.0 + step * u) for sign in (1.0, -1.0) for step in steps)


def _passed(bench: GemmProbe, side: str, values: Array) -> Array | None:
    """The result for each number, or None if it depends on the position in K or in the output."""
    results = []
    for slot in (5, bench.shape.k - 2):
        rows, ones = at((slot,), values[:, None], bench.shape.k), np.zeros(bench.shape.k)
        ones[slot] = 1.0
        results.append(bench.rows(rows, ones) if side == "left" else bench.columns(ones, rows))
    same = all(
        np.array_equal(got, np.broadcast_to(results[0][:, :1], got.shape), equal_nan=True)
        for got in results
    )
    return results[0][:, 0] if same else None


def _bits(is_kept: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int | None:
    """The number of significant bits kept; None if a lost bit is followed by a kept one."""
    count = int(np.argmin(is_kept)) if not is_kept.all() else len(is_kept)
    return None if is_kept[count:].any() else count + 1
