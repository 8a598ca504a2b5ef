"""Value classes: how bits in the bitstream become numbers.

Each class is a function ``(bits, blanks, first, form, *parameters) -> float64 array`` of integer
arithmetic and single, correctly rounded IEEE operations, so the numbers are the same everywhere.
Results are exactly representable in the case's dtype after one rounding, done in
:mod:`.fill`.
``first`` is the bitstream position of the first existing element. Blank elements (positions ≤ 0)
are 0, or the value of the domain nearest to 0.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.dtypes import FORMATS, Format
from . import bitstream, patterns

Array = npt.NDArray[np.float64]
Raw = npt.NDArray[Any]


def _integer_range(low: int, high: int) -> tuple[int, int]:
    """Both ends of a range of whole numbers that int64 or uint64 holds."""
    least, most = (-(2**63), 2**63) if low < 0 else (0, 2**64)
    if not least <= operator.index(low) <= operator.index(high) < most:
        raise ValueError(f"range {low} … {high}"[:80])
    return low, high


def _fraction(bits: bitstream.Bits, form: Format) -> Array:
    """[0, 1) with as many bits as the format's significand holds."""
    keep = np.uint64(64 - form.precision)
    return (bits >> keep).astype(np.float64) * 2.0**-form.precision


def _lay(blanks: int, numbers: Array, blank: float = 0.0) -> Array:
    if not blanks:
        return numbers
    return np.concatenate([np.full(blanks, blank), numbers])


def _nearest_to_zero(low: float, high: float) -> float:
    return min(max(0.0, low), high)


def _uniform(
    bits: bitstream.Bits, blanks: int, first: int, form: Format, low: float, high: float
) -> Array:
    """Even over [low, high], with full significands: on an even grid over [-1, 1) no sum of two
    numbers would be rounded."""
    if not (math.isfinite(high - low) and low <= high):
        raise ValueError(f"interval [{low}, {high}]")
    numbers = bits.view(np.int64).astype(np.float64)
    np.multiply(numbers, (high - low) * 2.0**-64, out=numbers)
    np.add(numbers, low + (high - low) / 2, out=numbers)
    np.minimum(
        np.maximum(numbers, low, out=numbers), high, out=numbers
    )  # the last rounding may step over an end
    return _lay(blanks, numbers, _nearest_to_zero(low, high))


def _normal(
    bits: bitstream.Bits, blanks: int, first: int, form: Format, mean: float, deviation: float
) -> Array:
    """Normal-like: the sum of four uniform numbers (Irwin–Hall), variance 1/3, scaled; low bits
    fill the significand."""
    chunk = np.uint64(0xFFFF)
    total = (
        sum(((bits >> np.uint64(shift)) & chunk).astype(np.int64) for shift in (0, 16, 32, 48))
        - 2 * 0xFFFF
    )
    low_bits = _fraction(bits * np.uint64(0x9E3779B97F4A7C15), FORMATS["float64"])
    numbers = (np.asarray(total, dtype=np.float64) + low_bits) * (
        math.sqrt(3.0) * deviation / 65536.0
    ) + mean
    return _lay(blanks, numbers)


def _wide(
    bits: bitstream.Bits,
    blanks: int,
    first: int,
    form: Format,
    low: int,
    high: int,
    signed: int = 1,
) -> Array:
    """Magnitudes 2**low … 2**(high+1), every binade equally likely, both signs if ``signed``."""
    if max(map(abs, _integer_range(low, high))) > 1100:
        raise ValueError(f"exponents {low} … {high}")
    exponent = low + ((bits & np.uint64(0x7FF)).astype(np.int64) % (high - low + 1))
    numbers = np.ldexp(1.0 + (bits >> np.uint64(12)).astype(np.float64) * 2.0**-52, exponent)
    if signed:
        np.negative(numbers, out=numbers, where=(bits & np.uint64(0x800)) != 0)
    return _lay(blanks, numbers, 0.0 if signed else 2.0**low)


def _cancelling(
    bits: bitstream.Bits, blanks: int, first: int, form: Format, scale: float = 1.0
) -> Array:
    """±scale·(1 + f/256), the sign alternating along the bitstream: sums cancel to a small fraction
    of Σ|x|."""
    numbers = (1.0 + _fraction(bits, form) * 2.0**-8) * scale
    numbers[(first + np.arange(numbers.size)) % 2 == 0] *= -1.0
    return _lay(blanks, numbers)


def _offset(
    bits: bitstream.Bits, blanks: int, first: int, form: Format, mean: float, spread: float
) -> Array:
    """A large mean with a small spread: mean + spread·[-1, 1)."""
    return _lay(blanks, mean + spread * (2.0 * _fraction(bits, form) - 1.0), mean)


def _integers(
    bits: bitstream.Bits, blanks: int, first: int, form: Format, low: int, high: int
) -> Raw:
    """Whole numbers low … high, both included; as int64, or as uint64 if that does not hold
    them."""
    low, high = _integer_range(low, high)
    span = high - low + 1
    # The multiply-shift method on the top 32 bits; wide ranges take the remainder of all 63, those
    # of more than half of all integers that of 64.
    if span < 1 << 31:
        top = (bits >> np.uint64(32)) * np.uint64(span) >> np.uint64(32)
    elif span <= 1 << 63:
        top = (bits >> np.uint64(1)) % np.uint64(span)
    else:
        top = bits if span == 1 << 64 else bits % np.uint64(span)
    kind = np.int64 if high < 2**63 else np.uint64
    numbers = kind(low) + top.view(kind)  # modulo 2⁶⁴
    return (
        np.concatenate([np.full(blanks, min(max(0, low), high), dtype=kind), numbers])
        if blanks
        else numbers
    )


def _checked_width(width: int) -> int:
    if not 2 <= operator.index(width) <= 64:
        raise ValueError(f"a width of {width} bits"[:80])
    return width


@functools.cache
def _beside_powers(width: int) -> Raw:
    """±2**k and their neighbors within a signed integer of ``width`` bits, both ends included."""
    _checked_width(width)
    end = 1 << (width - 1)
    numbers = {s * (1 << k) + step for k in range(width) for s in (-1, 1) for step in (-1, 0, 1)}
    return np.array(sorted(n for n in numbers if -end <= n < end), dtype=np.int64)


def _powers(bits: bitstream.Bits, blanks: int, first: int, form: Format, width: int) -> Raw:
    """Powers of two, their neighbors and the ends of a signed integer of ``width`` bits, of either
    sign; as int64. Some differ by a unit that float32 or float64 does not hold."""
    numbers = _beside_powers(width)
    chosen = ((bits >> np.uint64(8)) % np.uint64(numbers.size)).astype(np.int64)
    return np.concatenate([np.zeros(blanks, dtype=np.int64), numbers[chosen]])


@functools.cache
def _beside_unsigned_powers(width: int) -> Raw:
    """0, 2**k and their neighbors within an unsigned integer of ``width`` bits, the largest
    included."""
    _checked_width(width)
    numbers = {0, *((1 << k) + step for k in range(width + 1) for step in (-1, 0, 1))}
    return np.array(sorted(n for n in numbers if n < 1 << width), dtype=np.uint64)


def _unsigned_powers(
    bits: bitstream.Bits, blanks: int, first: int, form: Format, width: int
) -> Raw:
    """Powers of two, their neighbors and the ends of an unsigned integer of ``width`` bits; as
    uint64. The upper half is negative where the bits are read as a signed integer."""
    numbers = _beside_unsigned_powers(width)
    chosen = ((bits >> np.uint64(8)) % np.uint64(numbers.size)).astype(np.int64)
    return np.concatenate([np.zeros(blanks, dtype=np.uint64), numbers[chosen]])


def _unsigned(bits: bitstream.Bits, blanks: int, first: int, form: Format, width: int) -> Raw:
    """All integers of ``width`` bits alike, from 0 on; as uint64."""
    numbers = bits >> np.uint64(64 - _checked_width(width))
    return np.concatenate([np.zeros(blanks, dtype=np.uint64), numbers])


def _sparse(bits: bitstream.Bits, blanks: int, first: int, form: Format, density: float) -> Raw:
    """Mostly 0 with -1 and 1 at the given density, so that long sums stay exact in formats with few
    bits."""
    hit = (bits & np.uint64(0xFFFF)).astype(np.float64) < density * 65536.0
    sign = 1 - 2 * ((bits >> np.uint64(40)) & np.uint64(1)).astype(np.int64)
    return np.concatenate([np.zeros(blanks, dtype=np.int64), np.where(hit, sign, 0)])


def _subnormal(bits: bitstream.Bits, blanks: int, first: int, form: Format) -> Array:
    """Both signs of the format's subnormal numbers, with some of the smallest normals among
    them."""
    numbers = _fraction(bits, form) * (2.0 * form.smallest_normal)
    np.negative(numbers, out=numbers, where=(bits & np.uint64(1)) != 0)
    return _lay(blanks, numbers)


def _beyond(bits: bitstream.Bits, blanks: int, first: int, form: Format, large: int) -> Array:
    """Numbers whose squares leave the format while they do not: in ``large`` the upper half of its
    normal exponents, else the lower half; every binade equally likely, both signs."""
    top = form.max_exponent
    low, high = (top // 2 + 1, top - 1) if large else (1 - top, -(top // 2) - 2)
    return _wide(bits, blanks, first, form, low, high)


def _near(
    bits: bitstream.Bits,
    blanks: int,
    first: int,
    form: Format,
    low: float,
    high: float,
    *points: float,
) -> Array:
    """Around the given points, at distances from one ulp to the point's own size (of 0: 2**-10),
    every octave equally likely; in [low, high]."""
    if not points or not low <= high:
        raise ValueError("no points" if not points else f"interval [{low}, {high}]")
    point = np.asarray(points, dtype=np.float64)[
        ((bits & np.uint64(0xFF)) % np.uint64(len(points))).astype(np.int64)
    ]
    octave = ((bits >> np.uint64(8)) & np.uint64(0xFF)).astype(np.int64) % form.precision
    size = np.where(point == 0.0, 2.0**-10, np.abs(point))
    distance = np.ldexp(_fraction(bits, form), -octave) * size
    distance[(bits & np.uint64(0x30000)) == 0] = 0.0  # a quarter of them: the point itself
    np.negative(distance, out=distance, where=(bits & np.uint64(0x40000)) != 0)
    return _lay(blanks, np.clip(point + distance, low, high), _nearest_to_zero(low, high))


def _tokens(
    bits: bitstream.Bits,
    blanks: int,
    first: int,
    form: Format,
    low: float,
    high: float,
    *names: str,
) -> Array:
    """Even over [low, high], with one number in four replaced by one of the named special
    values."""
    if not names or not all(name in SPECIAL for name in names):
        raise ValueError(f"special values are: {', '.join(SPECIAL)}")
    numbers = _uniform(bits, 0, first, form, low, high)
    chosen = (bits & np.uint64(0xFF)) < np.uint64(64)
    which = (bits >> np.uint64(1)) % np.uint64(len(names))
    for position, name in enumerate(names):
        numbers[chosen & (which == np.uint64(position))] = SPECIAL[name](form)
    return _lay(blanks, numbers, _nearest_to_zero(low, high))


def _constant(bits: bitstream.Bits, blanks: int, first: int, form: Format, name: str) -> Array:
    """The same special value everywhere, blanks too: rows that are all equal, all NaN, all -0."""
    if name not in SPECIAL:
        raise ValueError(f"special values are: {', '.join(SPECIAL)}")
    return np.full(blanks + bits.size, SPECIAL[name](form))


def _leading(
    bits: bitstream.Bits,
    blanks: int,
    first: int,
    form: Format,
    low: float,
    high: float,
    count: int,
    name: str,
) -> Array:
    """Even over [low, high], but for the first ``count`` numbers, blanks too, which are a special
    value: a first row that is all equal, all NaN, all -0."""
    if name not in SPECIAL or operator.index(count) < 0:
        raise ValueError(f"special values are: {', '.join(SPECIAL)}")
    even = _uniform(bits, 0, first, form, low, high)
    numbers = _lay(blanks, even, _nearest_to_zero(low, high))
    numbers[:count] = SPECIAL[name](form)
    return numbers


def _distinct(bits: bitstream.Bits, blanks: int, first: int, form: Format) -> Array:
    """A shuffled 0, 1, 2, … scaled to a power of two: no two numbers are equal (up to the format's
    significand)."""
    numbers = np.argsort(np.argsort(bits, kind="stable"), kind="stable").astype(np.float64) + 1.0
    return _lay(blanks, numbers * 0.5)


def _permutation(bits: bitstream.Bits, blanks: int, first: int, form: Format) -> Raw:
    """Each of 0 … n-1 once; blanks come first and stay in order."""
    order = np.argsort(bits, kind="stable") + blanks
    return np.concatenate([np.arange(blanks), order]).astype(np.int64)


def _balanced(
    bits: bitstream.Bits,
    blanks: int,
    first: int,
    form: Format,
    size: int,
    stride: int,
    mirror: int,
    salt: int,
) -> Raw:
    """1 and -1 in an order that ``salt`` chooses: ``size`` numbers, ``stride`` times each, of which
    the second half is the first one backwards, times ``mirror``. With -1 the sum is 0, that of
    products with any numbers of mirror 1 as well; the middle one of an odd number is 0 then."""
    if min(operator.index(size), operator.index(stride)) < 1 or mirror not in (-1, 1):
        raise ValueError(f"{size} numbers, {stride} times each, mirrored by {mirror}")
    place = np.arange(bits.size + blanks, dtype=np.int64) // stride % size
    back = size - 1 - place
    mixed = (np.minimum(place, back) + 1 + 1009 * (salt % 1009)) * 2654435761
    signs = np.where(mixed >> 13 & 1, 1, -1)
    return signs if mirror == 1 else signs * np.sign(back - place)


def _ascending(
    bits: bitstream.Bits,
    blanks: int,
    first: int,
    form: Format,
    low: float,
    high: float,
    *names: str,
) -> Array:
    """Even over [low, high], in ascending order; one of each named special value among more
    numbers, NaN at the end."""
    if not all(name in SPECIAL for name in names):
        raise ValueError(f"special values are: {', '.join(SPECIAL)}")
    numbers = _uniform(bits, blanks, first, form, low, high)
    if 0 < len(names) < numbers.size:
        numbers[-len(names) :] = [SPECIAL[name](form) for name in names]
    return np.sort(numbers)


def _diagonal(
    bits: bitstream.Bits,
    blanks: int,
    first: int,
    form: Format,
    size: int,
    weight: float,
    exponent: int = 0,
) -> Array:
    """Even over [-1, 1] with ``weight`` added on the diagonal of each size × size block, all of it
    times 2 to the ``exponent``: well-conditioned matrices."""
    numbers = _uniform(bits, blanks, first, form, -1.0, 1.0)
    if not numbers.size:
        return numbers
    numbers.reshape(-1, size, size)[:, range(size), range(size)] += weight
    return numbers * 2.0**exponent


def _exchanged(
    bits: bitstream.Bits,
    blanks: int,
    first: int,
    form: Format,
    size: int,
    weight: float,
    exponent: int = 0,
) -> Array:
    """As ``diagonal``, with the rows of each block in the opposite order and zeros where its
    diagonal is now: well-conditioned matrices that cannot be eliminated without exchanging
    rows."""
    numbers = _diagonal(bits, blanks, first, form, size, weight, exponent)
    if not numbers.size:
        return numbers
    blocks = numbers.reshape(-1, size, size)[:, ::-1].copy()
    others = [row for row in range(size) if 2 * row != size - 1]  # the middle stays
    blocks[:, others, others] = 0.0
    return np.asarray(blocks.reshape(-1))


def _positive_definite(
    bits: bitstream.Bits, blanks: int, first: int, form: Format, size: int, exponent: int = 0
) -> Array:
    """M·Mᵀ + size·I of small whole numbers M (exact), scaled by 1/8 and by 2 to the ``exponent``:
    symmetric positive definite size × size blocks."""
    small = _integers(bits, blanks, first, form, -3, 3)
    if not small.size:
        return _lay(0, small.astype(np.float64))
    small = small.reshape(-1, size, size)
    product = np.einsum("bij,bkj->bik", small, small) + size * np.eye(size, dtype=np.int64)
    return np.asarray(product, dtype=np.float64).reshape(-1) * 2.0 ** (exponent - 3)


CLASSES: dict[str, Callable[..., Raw]] = {
    "uniform": _uniform, "normal": _normal, "wide": _wide, "cancelling": _cancelling,
    "offset": _offset,
    "integers": _integers, "powers": _powers, "sparse": _sparse, "subnormal": _subnormal,
    "unsigned": _unsigned, "unsigned-powers": _unsigned_powers,
    "near": _near, "beyond": _beyond,
    "tokens": _tokens, "constant": _constant, "leading": _leading,
    "distinct": _distinct, "permutation": _permutation, "ascending": _ascending,
    "balanced": _balanced,
    "diagonal": _diagonal, "exchanged": _exchanged,
    "positive-definite": _positive_definite,
    "every": patterns.every, "landmarks": patterns.landmarks,
}  # fmt: skip
PATTERN_CLASSES = frozenset({"every", "landmarks"})  # they return bit patterns
EXACT_CLASSES = frozenset(
    {"integers", "powers", "unsigned", "unsigned-powers", "sparse", "permutation", "balanced"}
)

SPECIAL: dict[str, Callable[[Format], float]] = {
    "nan": lambda form: math.nan,
    "-nan": lambda form: -math.nan,
    "inf": lambda form: math.inf,
    "-inf": lambda form: -math.inf,
    "0": lambda form: 0.0,
    "-0": lambda form: -0.0,
    "1": lambda form: 1.0,
    "-1": lambda form: -1.0,
    "max": lambda form: (2.0 - 2.0 ** (1 - form.precision)) * 2.0**form.max_exponent,
    "-max": lambda form: -(2.0 - 2.0 ** (1 - form.precision)) * 2.0**form.max_exponent,
    "tiny": lambda form: form.smallest_normal,
    "subnormal": lambda form: form.smallest_normal * 2.0 ** (1 - form.precision),
}
