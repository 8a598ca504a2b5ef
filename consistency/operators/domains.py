"""Sets of dtypes, and domains: which numbers an argument is drawn from."""

from __future__ import annotations

import math
from dataclasses import dataclass

FLOAT = ("float32", "float64")
HALF = ("float16", "bfloat16")
FLOATS = (*FLOAT, *HALF)
INTEGERS = ("int32", "int64", "int16", "int8", "uint8")
NUMERIC = (*FLOATS, *INTEGERS)
EVERY = (*NUMERIC, "bool")
COMPLEX = ("complex64", "complex128")

# A compensated sum subtracts an infinity from itself, and so does a product of numbers that are
# split into parts: both give NaN where a sum in plain order is infinite.
INFINITE = ("inf", "-inf")
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
    (cancelling, large mean, exact integers), ``squares`` numbers whose squares leave the format.
    ``propagates`` are the special values whose
    way through an accumulation is defined although none are named in ``specials``: NaN alone,
    since what becomes of an infinity depends on how a sum is formed (:data:`INFINITE`).
    """

    low: float = -math.inf
    high: float = math.inf
    points: tuple[float, ...] = ()
    specials: tuple[str, ...] = ()
    wide: tuple[int, int] | None = None
    sums: bool = False
    tiny: bool = False
    propagates: tuple[str, ...] = ("nan",)
    squares: bool = False

    @property
    def names_special_values(self) -> bool:
        """Whether special values are drawn even among numbers of a given value class."""
        return bool(self.specials) or self.propagates not in ((), ("nan",))

    def propagated(self, *, alone: bool = False) -> tuple[str, ...]:
        """What is drawn where no special values are named: NaN, whose way through an operator is
        defined in any domain. ``alone``: every result has an input of its own, so that the
        infinities have theirs, too, if the domain reaches them."""
        reached = {"inf": self.high == math.inf, "-inf": self.low == -math.inf}
        tokens = ("nan", *INFINITE) if alone and self.propagates else self.propagates
        return tuple(token for token in tokens if reached.get(token, True))


EITHER_SIGN = ("0", "-0", "1", "-1", "nan", "-nan", "inf", "-inf")
REAL = Domain(specials=EVERYWHERE, wide=(-24, 24), tiny=True)
SUMMED = Domain(wide=(-10, 10), sums=True)
SQUARED = Domain(wide=(-10, 10), sums=True, squares=True)
ADDED = Domain(wide=(-10, 10), sums=True, tiny=True)  # no squares, which underflow
UNIT = Domain(-1.0, 1.0)
POSITIVE = Domain(2.0**-10, 2.0**10, wide=(-10, 9))
PROBABILITY = Domain(2.0**-8, 1.0 - 2.0**-8, propagates=())  # torch refuses NaN among them
