"""How many bits the running sum keeps, how it rounds, and whether what it loses is carried along
(compensation).

1.5 + 2^-p − 1.5 is 2^-p as long as the sum has more than p bits. Which of the three is added last
nobody knows, so all places are asked, and several distances: inside what is added one after
another, and across what is added in halves.
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
BIG = 1.5  # a sum of it and a small number of either sign has the same last bit
_FRACTIONS = (0.25, 0.5, 0.75)
_LOSSLESS = 1000  # "bits" of an arrangement in which nothing was lost
_ROUNDED_AT = 6  # arrangements in which the way of rounding is looked at
_LADDER = 5  # the first p that is asked
_MOST_GUARD = 8  # bits that terms added together may have more than the running sum
_CUT = "aligned terms cut off"
LONG = Shape(
    16, 4608, 8
)  # for compensation: enough small numbers to be seen beside the rounding of what carries them
_BELOW = 4  # bits below the last one: 16 of them added together are still lost
_CARRIED, _LOST = (
    12,
    24,
    # small numbers that a compensated sum may lose (half a last bit), that a plain one loses at
    # least
)
Ladder = npt.NDArray[np.int64]


def _within(k: int) -> list[Places]:
    return [(0, 1, 2), (4, 5, 6), (0, 4, 8), (1, 17, 33), (9, 18, 27)]


def _across(k: int) -> list[Places]:
    return [
        (0, 1, k // 2),
        (0, k // 2, k - 1),
        (3, k // 3, k - 5),
        (k // 2 - 1, k // 2, k // 2 + 1),
    ]


def facts(ask: Ask, form: str, dtype: str) -> Iterator[Fact]:
    """``…/accumulator`` (bits and rounding) and ``…/compensation``."""
    question, other = f"{form}/{dtype}/accumulator", f"{form}/{dtype}/compensation"
    bench = GemmProbe(ask, form, dtype, EVEN)
    try:
        near, far = (_widths(bench, groups(bench.shape.k)) for groups in (_within, _across))
        second = min(
            _widths(
                GemmProbe(ask, form, dtype, ODD), _within(ODD.k)[:3] + _across(ODD.k)[:2]
            ).values()
        )
        inside, across = min(near.values()), min(far.values())
        least, limit = min(inside, across), _last(dtype) + 1
        text = f"1.5 + 2^-p − 1.5 at {len(near) + len(far)} places of K = {bench.shape.k}"
        if least == _LADDER:
            yield unknown(question, f"not even 1.5 + 2^-{_LADDER} − 1.5 comes back", text)
            yield unknown(other, "the width of the sum is not known", text)
            return
        if least == _LOSSLESS:
            answer = f"at least {limit} bits" + (
                f"; {second} bits at {ODD}" if second != _LOSSLESS else ""
            )
            yield Fact(
                question,
                answer,
                f"{text}: nothing lost down to p = {limit - 1}",
                details={"bits": f"{limit}"},
            )
            yield unknown(
                other, f"with at least {limit} bits nothing is lost that could be carried along"
            )
            return
        mode, places, seen = _mode(
            bench, [key for found in (near, far) for key, w in found.items() if w == least], least
        )
        answer = f"{least} bits, {mode}" if mode else f"{least} bits"
        more = _among(bench, near, least)
        answer += f"; {more} among terms added together" if more else ""
        answer += f"; {inside} inside a part of K" if least < inside < _LOSSLESS else ""
        answer += f"; {second} bits at {ODD}" if second not in (least, _LOSSLESS) else ""
        why = "" if mode else f"; the way of rounding is not known: {seen}"
        evidence = (
            f"{text}: lost from p = {least} on; ¼, ½ and ¾ of the last bit, both signs, "
            f"at {places} places{why}"
        )
        yield Fact(
            question,
            answer,
            evidence,
            details={"bits": str(least), "rounding": mode},
            usual=answer in _usual(dtype),
        )
        yield _compensation(GemmProbe(ask, form, dtype, LONG), other, least)
    except NotAnswered as reason:
        yield unknown(question, str(reason))
        yield unknown(other, str(reason))


def _usual(dtype: str) -> tuple[str, ...]:
    full = max(FORMATS[dtype].precision, FORMATS["float32"].precision)
    return (f"{full} bits, nearest even",)


def _last(dtype: str) -> int:
    """The largest p that is asked: 2^-p must be a number of the dtype, far from its subnormals."""
    return {"float16": 27, "float64": 110}.get(dtype, 60)


def _scale(dtype: str) -> float:
    """Room below 1: float16's normal numbers end at 2^-14."""
    return 2.0**13 if dtype == "float16" else 1.0


def _widths(bench: GemmProbe, triples: list[Places]) -> dict[Places, int]:
    """For each placement the first p at which 2^-p is lost anywhere in the output, ``_LOSSLESS``
    where all survive.

    Results in other rows may be added in another order, so a smaller number may survive where a
    larger one is lost.
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
        p: int(ladder[np.argmax(gone)]) if gone.any() else _LOSSLESS
        for p, gone in zip(placements, lost, strict=True)
    }


def _triple(dtype: str, ladder: Ladder) -> Array:
    return np.stack(
        [np.full(len(ladder), BIG), 2.0**-ladder, np.full(len(ladder), -BIG)], axis=1
    ) * _scale(dtype)


def _among(bench: GemmProbe, near: dict[Places, int], least: int) -> int:
    """The bits of sums that are wider than the running one, 0 where there are none: the same in
    every row of the output."""
    wider = sorted({w for w in near.values() if least < w <= least + _MOST_GUARD}, reverse=True)
    for width in wider:
        places = next(key for key, w in near.items() if w == width)
        ladder = np.repeat([least, width - 1, width], bench.shape.m).astype(np.int64)
        got = bench.rows(
            at(places, _triple(bench.dtype, ladder), bench.shape.k), np.ones(bench.shape.k)
        )
        kept = (got == (2.0**-ladder * _scale(bench.dtype))[:, None]).reshape(3, -1)
        if kept[:2].all() and not kept[2].any():
            return width
    return 0


def _mode(bench: GemmProbe, placements: list[Places], bits: int) -> tuple[str, int, str]:
    """(the way of rounding, in how many arrangements it was looked for, what was seen where it is
    not known)."""
    unit = 2.0 ** (1 - bits) * _scale(bench.dtype)
    tests = [
        (sign, small, odd)
        for odd in _odd(bench.dtype, bits)
        for sign in (1.0, -1.0)
        for small in (*_FRACTIONS, *_minus())
    ]
    big = np.array([sign * (BIG * _scale(bench.dtype) + odd * unit) for sign, _, odd in tests])
    small = np.array([fraction for _, fraction, _ in tests])
    parity = np.array(
        [sign * (4.0 + odd) for sign, _, odd in tests]
    )  # 1.5 in units of its last bit, but for a multiple of 4
    placements = placements[:: max(1, len(placements) // _ROUNDED_AT)][:_ROUNDED_AT]
    values = np.stack([big, small * unit, -big], axis=1)
    got = bench.rows(
        np.concatenate([at(p, values, bench.shape.k) for p in placements]), np.ones(bench.shape.k)
    )
    names: list[str] = []
    for block in got.reshape(len(placements), len(tests), -1):
        for steps in np.unique(
            block / unit, axis=1
        ).T:  # other columns may be added in another order
            rounded = steps == np.rint(steps)  # where not, the others were added to 0 first
            if np.unique(np.sign(small[rounded])).size == 2 and rounded.sum() * 2 >= len(tests):
                names.append(
                    _fitting(steps[rounded], parity[rounded], small[rounded])
                    or "none of the known ways"
                )
    known = len(set(names)) == 1 and (names[0] in modes.MODES or names[0].endswith(_CUT))
    return (
        (names[0], len(placements), "")
        if known
        else ("", len(placements), "; ".join(dict.fromkeys(names)) or "nothing lost")
    )


def _minus() -> tuple[float, ...]:
    return tuple(-fraction for fraction in _FRACTIONS)


def _odd(dtype: str, bits: int) -> tuple[float, ...]:
    """Whether 1.5 plus one last bit of the sum is a number of the dtype, too."""
    return (0.0, 1.0) if bits <= FORMATS[dtype].precision else (0.0,)


def _fitting(steps: Array, big: Array, small: Array) -> str:
    """The way of rounding that gives ``steps``, in whichever order the three were added; empty
    where none or several do."""

    def fits(mode: modes.Mode, term: Array) -> bool:
        return np.array_equal(mode(big + term) - big, steps) or np.array_equal(
            mode(term - big) + big, steps
        )

    found = [name for name, mode in modes.MODES.items() if fits(mode, small)]
    for guard in (
        1.0,
        2.0,
    ):  # matrix units align the terms first, and cut off what lies below their guard bits
        if not found:
            cut = np.trunc(small * 2.0**guard) / 2.0**guard
            found = [
                f"{name}, {_CUT}"
                for name in ("nearest even", "toward zero")
                if fits(modes.MODES[name], cut)
            ]
    return " or ".join(found) or ("" if steps.any() else _CUT)


def _compensation(bench: GemmProbe, question: str, bits: int) -> Fact:
    """1, −1, and everywhere else numbers far below the last bit of 1: what is left of them, at its
    least."""
    k, one = bench.shape.k, 2.0**14 if bench.dtype == "float16" else 1.0
    unit = one * 2.0 ** -(bits + _BELOW)
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
        row[i], row[j] = one, -one
    gone = k - 2 - bench.rows(rows, np.ones(k)) / unit
    if not np.isfinite(gone).all():
        return unknown(question, "infinity or NaN comes back")
    worst = float(gone.max())
    text = (
        f"1, −1 and {k - 2} numbers of 2^-{bits + _BELOW} at {len(pairs)} places of the two: "
        f"at most {worst:g} of them are lost"
    )
    if worst >= _LOST:
        return Fact(question, "none", text, usual=True)
    if np.abs(gone).max() <= _CARRIED:
        return Fact(question, "compensated", text)
    return unknown(
        question, "too few are lost for a plain sum, and too many for a compensated one", text
    )
