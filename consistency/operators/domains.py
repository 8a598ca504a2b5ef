"""Sets of dtypes, and domains: which numbers an argument is drawn from."""

from __future__ import annotations

import math
from dataclasses import dataclass

FLOAT = ("float32", "float64")
HALF = ("float16", "bfloat16")
FLOATS = (*FLOAT, *HALF)
INTEGERS = ("int32", "int64")
NUMERIC = (*FLOATS, *INTEGERS)
EVERY = (*NUMERIC, "bool")
COMPLEX = ("complex64", "complex128")

EVERYWHERE = (
    "0",
    "-0",
    "1",
    "-1",
    "nan",
    "-nan",
    "inf",
    "-inf",
    "tiny",
    "subnormal",
    "max",
    "-max",
)
FINITE = ("0", "-0", "1", "-1", "tiny", "subnormal")


@dataclass(frozen=True, slots=True)
class Domain:
    """The numbers that an argument is drawn from.

    They stay within [low, high]. ``points`` are boundaries of behavior (overflow thresholds, branch
    points), ``specials`` the useful tokens of :data:`consistency.generate.value_classes.SPECIAL`,
    ``wide`` the binades 2**a … 2**b of magnitudes, ``sums`` adds fillings that stress summation
    (cancelling, large mean, exact integers).
    """

    low: float = -math.inf
    high: float = math.inf
    points: tuple[float, ...] = ()
    specials: tuple[str, ...] = ()
    wide: tuple[int, int] | None = None
    sums: bool = False
    tiny: bool = False


REAL = Domain(specials=EVERYWHERE, wide=(-24, 24), tiny=True)
SUMMED = Domain(wide=(-10, 10), sums=True)
UNIT = Domain(-1.0, 1.0)
POSITIVE = Domain(2.0**-10, 2.0**10, wide=(-10, 9))
PROBABILITY = Domain(2.0**-8, 1.0 - 2.0**-8)
