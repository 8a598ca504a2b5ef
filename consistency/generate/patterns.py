"""Value classes made of bit patterns instead of the bitstream: ``every``, consecutive patterns of a
format or those at equal distances, and ``landmarks``, 2,048 chosen ones.

Both have the signature of :mod:`.value_classes`, use nothing of the bitstream, have no blank
elements, and return patterns as unsigned integers: NaN keeps its payload. They shrink to
consecutive patterns, at last to a single one (:mod:`consistency.diagnose.shrink.patterns`).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.dtypes import Format
from . import bitstream

Patterns = npt.NDArray[Any]
LANDMARKS = 2048
_WIDTHS = {11: 16, 8: 16, 24: 32, 53: 64}  # bits of a number, by the precision of its format


def width_of(form: Format) -> int:
    """The bits of a number of the format. Raises ValueError for one that torch does not compute
    with."""
    if form.precision not in _WIDTHS:
        raise ValueError("bit patterns of float16, bfloat16, float32 and float64 only")
    return _WIDTHS[form.precision]


def every(
    bits: bitstream.Bits, blanks: int, first: int, form: Format, start: int = 0, step: int = 1
) -> Patterns:
    """Bit patterns in their order: element i has the pattern ``start + i · step``, modulo all
    patterns. With another step than 1, NaN are quiet: what a signaling one becomes in a function
    that leaves NaN out is not defined (IEEE 754-2008, 6.2)."""
    width = width_of(form)
    for name, number in (("pattern", start), ("step", step)):
        if not 0 <= number < 1 << width:
            raise ValueError(f"{name} {number!r:.40} of {width} bits")
    count = bits.size + blanks
    patterns = np.arange(count, dtype=np.uint64) * np.uint64(step) + np.uint64(start)
    patterns = (patterns & np.uint64((1 << width) - 1)).astype(f"uint{width}")
    if step != 1:
        low = form.precision - 1
        infinity = ((1 << (width - form.precision)) - 1) << low
        is_nan = (patterns & patterns.dtype.type((1 << (width - 1)) - 1)) > infinity
        patterns[is_nan] |= patterns.dtype.type(1 << (low - 1))
    return patterns


def landmarks(bits: bitstream.Bits, blanks: int, first: int, form: Format) -> Patterns:
    """The numbers between which functions change: of every exponent (that of subnormals included)
    the power of two, its neighbors, halves, quarters and ties, and whole numbers; infinities, NaN,
    zeros; all of these with both signs."""
    if form.precision == 53:
        raise ValueError("float64 has more exponents than there are chosen numbers")
    count = bits.size + blanks
    return np.resize(_landmarks(width_of(form), form.precision), count)


@functools.cache
def _landmarks(width: int, precision: int) -> Patterns:
    low = precision - 1  # bits of the significand's fraction
    exponents = np.arange((1 << (width - precision)) - 1) << low  # without that of infinities
    infinity = ((1 << (width - precision)) - 1) << low
    half, quarter, all_ones = 1 << (low - 1), 1 << (low - 2), (1 << low) - 1
    fractions = [0, 1, all_ones, half, half + 1, half - 1, 2, all_ones - 1, quarter, half + quarter]
    fractions += [(1 << bit) + more for bit in range(low) for more in (0, 1)]
    fractions += [all_ones - (1 << bit) for bit in range(low)]
    room = LANDMARKS // 2
    chosen = dict.fromkeys([infinity, infinity + half])  # positive ones, the first of each kind
    for fraction in dict.fromkeys(fractions):
        if len(chosen) + exponents.size <= room:
            chosen |= dict.fromkeys(map(int, exponents + fraction))
    whole = 3
    while len(chosen) < room:
        size = whole.bit_length() - 1
        if whole < 1 << precision:
            bias = (1 << (width - precision - 1)) - 1
            fraction = (whole << (low - size)) & all_ones if size <= low else 0
            chosen.setdefault(((size + bias) << low) + fraction)
        whole += 1
    positive = np.array(sorted(chosen), dtype=np.uint64)
    signed = np.concatenate([positive, positive + np.uint64(1 << (width - 1))])
    signed = signed.astype(f"uint{width}")
    signed.flags.writeable = False
    return signed
