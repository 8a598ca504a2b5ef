"""The accumulator: its number of bits, its rounding mode, and whether its errors are compensated.

1.5 + 2^-p − 1.5 is 2^-p if the accumulator has more than p bits. Which of the three terms is added
last is unknown, so they are tried in all orders and at several distances: close together, within a
sequential part of the sum, and far apart, across a sum that is split in halves.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np
import numpy.typing as npt

from ...core.dtypes import FORMATS
from . import modes
from .facts import Fact, unknown
from .gemm_probe import EVEN, ODD, Array, GemmProbe, Shape, at
from .query import Ask, NotAnswered

Places = tuple[int, int, int]  # of 1.5, of the small number, of −1.5
BIG = 1.5  # keeps its exponent when a small number of either sign is added
_FRACTIONS = (0.25, 0.5, 0.75)
_LOSSLESS = 1000  # "bits" of an arrangement without any loss
_ROUNDED_AT = 6  # arrangements in which the rounding mode is measured
_LADDER = 5  # the smallest p tested
_MOST_GUARD = 8  # bits by which a multi-term addition may exceed the accumulator
_CUT = "aligned terms cut off"
# For compensation: enough small numbers to exceed the rounding error of the compensation term.
LONG = Shape(16, 4608, 8)
_BELOW = 4  # bits below the last one, so that even the sum of 16 such numbers is lost
# The most small numbers that a compensated sum loses (half a last bit); the fewest that a plain one
# loses.
_CARRIED, _LOST = 12, 24
Ladder = npt.NDArray[np.int64]


def _near_places(k: int) -> list[Places]:
    return [(0, 1, 2), (4, 5, 6), (0, 4, 8), (1, 17, 33), (9, 18, 27)]


def _far_places(k: int) -> list[Places]:
    return [
        (0, 1, k // 2),
        (0, k // 2, k - 1),
        (3, k // 3, k - 5),
        (k // 2 - 1, k // 2, k // 2 + 1),
    ]


def facts(ask: Ask, form: str, dtype: str) -> Iterator[Fact]:
    """``…/accumulator`` (bits and rounding) and ``…/compensation``."""
    question, compensation_question = f"{form}/{dtype}/accumulator", f"{form}/{dtype}/compensation"
    bench = GemmProbe(ask, form, dtype, EVEN)
    try:
        near_widths, far_widths = (
            _widths(bench, groups(bench.shape.k)) for groups in (_near_places, _far_places)
        )
        odd_shape_bits = min(
            _widths(
                GemmProbe(ask, form, dtype, ODD), _near_places(ODD.k)[:3] + _far_places(ODD.k)[:2]
            ).values()
        )
        near_bits, far_bits = min(near_widths.values()), min(far_widths.values())
        bits, limit = min(near_bits, far_bits), _last(dtype) + 1
        count = len(near_widths) + len(far_widths)
        text = f"1.5 + 2^-p − 1.5 at {count} places of K = {bench.shape.k}"
        if bits == _LADDER:
            yield unknown(question, f"not even 1.5 + 2^-{_LADDER} − 1.5 comes back", text)
            yield unknown(compensation_question, "the width of the sum is not known", text)
            return
        if bits == _LOSSLESS:
            answer = f"at least {limit} bits" + (
                f"; {odd_shape_bits} bits at {ODD}" if odd_shape_bits != _LOSSLESS else ""
            )
            yield Fact(
                question,
                answer,
                f"{text}: nothing lost down to p = {limit - 1}",
                details={"bits": f"{limit}"},
            )
            yield unknown(
                compensation_question,
                f"with at least {limit} bits nothing is lost that could be carried along",
            )
            return
        mode, places, observed = _mode(
            bench,
            [key for widths in (near_widths, far_widths) for key, w in widths.items() if w == bits],
            bits,
        )
        answer = f"{bits} bits, {mode}" if mode else f"{bits} bits"
        wider_bits = _multi_term_width(bench, near_widths, bits)
        answer += f"; {wider_bits} among terms added together" if wider_bits else ""
        answer += f"; {near_bits} inside a part of K" if bits < near_bits < _LOSSLESS else ""
        answer += (
            f"; {odd_shape_bits} bits at {ODD}" if odd_shape_bits not in (bits, _LOSSLESS) else ""
        )
        note = "" if mode else f"; the way of rounding is not known: {observed}"
        evidence = (
            f"{text}: lost from p = {bits} on; ¼, ½ and ¾ of the last bit, both signs, "
            f"at {places} places{note}"
        )
        yield Fact(
            question,
            answer,
            evidence,
            details={"bits": str(bits), "rounding": mode},
            usual=answer in _usual(dtype),
        )
        yield _compensation(GemmProbe(ask, form, dtype, LONG), compensation_question, bits)
    except NotAnswered as reason:
        yield unknown(question, str(reason))
        yield unknown(compensation_question, str(reason))


def _usual(dtype: str) -> tuple[str, ...]:
    full = max(FORMATS[dtype].precision, FORMATS["float32"].precision)
    return (f"{full} bits, nearest even",)


def _last(dtype: str) -> int:
    """The largest p tested: 2^-p must be a number of the dtype, far from its subnormals."""
    return {"float16": 27, "float64": 110}.get(dtype, 60)


def _scale(dtype: str) -> float:
    """Scale factor of the terms, since float16's normal numbers end at 2^-14."""
    return 2.0**13 if dtype == "float16" else 1.0


def _widths(bench: GemmProbe, triples: list[Places]) -> dict[Places, int]:
    """For each placement the first p at which 2^-p is lost anywhere in the output, ``_LOSSLESS`` if
    none is lost.

    Rows may have different summation orders, so a smaller number may survive where a larger one is
    lost.
    """
    ladder = np.arange(_LADDER, _last(bench.dtype) + 1)
    placements = [
        (i, j, k) for triple in triples for i, j, k in sorted(permutations(triple)) if i < k
    ]
    rows = np.concatenate(
        [at(places, _triple(bench.dtype, ladder), bench.shape.k) for places in placements]
    )
    got = bench.rows(rows, np.ones(bench.shape.k)).reshape(len(placements), len(ladder), -1)
    lost = (got != (2.0**-ladder * _scale(bench.dtype))[None, :, None]).any(axis=2)
    return {
        p: int(ladder[np.argmax(is_lost)]) if is_lost.any() else _LOSSLESS
        for p, is_lost in zip(placements, lost, strict=True)
    }


def _triple(dtype: str, ladder: Ladder) -> Array:
    return np.stack(
        [np.full(len(ladder), BIG), 2.0**-ladder, np.full(len(ladder), -BIG)], axis=1
    ) * _scale(dtype)


def _multi_term_width(bench: GemmProbe, near_widths: dict[Places, int], bits: int) -> int:
    """The width in bits of multi-term additions that are wider than the accumulator, confirmed in
    every row of the output; 0 if there are none."""
    wider = sorted(
        {w for w in near_widths.values() if bits < w <= bits + _MOST_GUARD}, reverse=True
    )
    for width in wider:
        places = next(key for key, w in near_widths.items() if w == width)
        ladder = np.repeat([bits, width - 1, width], bench.shape.m).astype(np.int64)
        got = bench.rows(
            at(places, _triple(bench.dtype, ladder), bench.shape.k), np.ones(bench.shape.k)
        )
        survived = (got == (2.0**-ladder * _scale(bench.dtype))[:, None]).reshape(3, -1)
        if survived[:2].all() and not survived[2].any():
            return width
    return 0


def _mode(bench: GemmProbe, placements: list[Places], bits: int) -> tuple[str, int, str]:
    """(rounding mode, number of arrangements tested, observation if the mode is unknown)."""
    unit = 2.0 ** (1 - bits) * _scale(bench.dtype)
    tests = [
        (sign, small, offset)
        for offset in _offsets(bench.dtype, bits)
        for sign in (1.0, -1.0)
        for small in (*_FRACTIONS, *_negative_fractions())
    ]
    big = np.array(
        [sign * (BIG * _scale(bench.dtype) + offset * unit) for sign, _, offset in tests]
    )
    small = np.array([fraction for _, fraction, _ in tests])
    # 1.5 in units of its last bit, modulo 4.
    parity = np.array([sign * (4.0 + offset) for sign, _, offset in tests])
    placements = placements[:: max(1, len(placements) // _ROUNDED_AT)][:_ROUNDED_AT]
    values = np.stack([big, small * unit, -big], axis=1)
    got = bench.rows(
        np.concatenate([at(p, values, bench.shape.k) for p in placements]), np.ones(bench.shape.k)
    )
    names: list[str] = []
    for block in got.reshape(len(placements), len(tests), -1):
        for steps in np.unique(block / unit, axis=1).T:  # columns may have different orders
            rounded = steps == np.rint(steps)  # otherwise ±1.5 cancelled first
            if np.unique(np.sign(small[rounded])).size == 2 and rounded.sum() * 2 >= len(tests):
                names.append(
                    _matching_mode(steps[rounded], parity[rounded], small[rounded])
                    or "none of the known ways"
                )
    is_known = len(set(names)) == 1 and (names[0] in modes.MODES or names[0].endswith(_CUT))
    return (
        (names[0], len(placements), "")
        if is_known
        else ("", len(placements), "; ".join(dict.fromkeys(names)) or "nothing lost")
    )


def _negative_fractions() -> tuple[float, ...]:
    return tuple(-fraction for fraction in _FRACTIONS)


def _offsets(dtype: str, bits: int) -> tuple[float, ...]:
    """Offsets of 1.5 in units of the accumulator's last bit that are exact in the dtype."""
    return (0.0, 1.0) if bits <= FORMATS[dtype].precision else (0.0,)


def _matching_mode(steps: Array, big: Array, small: Array) -> str:
    """The rounding modes that give ``steps``, whichever terms were added first; empty if none
    does."""

    def fits(mode: modes.Mode, term: Array) -> bool:
        return np.array_equal(mode(big + term) - big, steps) or np.array_equal(
            mode(term - big) + big, steps
        )

    names = [name for name, mode in modes.MODES.items() if fits(mode, small)]
    # Matrix units align the terms first and truncate them below their guard bits.
    for guard in (1.0, 2.0):
        if not names:
            cut = np.trunc(small * 2.0**guard) / 2.0**guard
            names = [
                f"{name}, {_CUT}"
                for name in ("nearest even", "toward zero")
                if fits(modes.MODES[name], cut)
            ]
    return " or ".join(names) or ("" if steps.any() else _CUT)


def _compensation(bench: GemmProbe, question: str, bits: int) -> Fact:
    """Whether a sum of 1, −1 and numbers far below the last bit of 1 keeps these numbers."""
    k, large = bench.shape.k, 2.0**14 if bench.dtype == "float16" else 1.0
    unit = large * 2.0 ** -(bits + _BELOW)
    if bench.dtype == "float16" and unit < 2.0**-14:
        return unknown(question, f"numbers below the last of {bits} bits do not fit float16")
    pairs = [
        (0, k - 1),
        (0, 1),
        (1, 2),
        (0, k // 2),
        (k // 2, k - 1),
        (k - 2, k - 1),
        (0, 4),
        (0, 16),
        (7, 9),
        (k - 1, 0),
    ]
    rows = np.full((len(pairs), k), unit)
    for row, (i, j) in zip(rows, pairs, strict=True):
        row[i], row[j] = large, -large
    lost = k - 2 - bench.rows(rows, np.ones(k)) / unit
    if not np.isfinite(lost).all():
        return unknown(question, "infinity or NaN comes back")
    max_lost = float(lost.max())
    text = (
        f"1, −1 and {k - 2} numbers of 2^-{bits + _BELOW} at {len(pairs)} places of the two: "
        f"at most {max_lost:g} of them are lost"
    )
    if max_lost >= _LOST:
        return Fact(question, "none", text, usual=True)
    if np.abs(lost).max() <= _CARRIED:
        return Fact(question, "compensated", text)
    return unknown(
        question, "too few are lost for a plain sum, and too many for a compensated one", text
    )
