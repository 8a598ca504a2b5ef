"""Elementwise operators of two operands: tensors that broadcast, numbers, 0-d tensors, integers
with floats."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from ..core.dtypes import INTEGER_RANGE, UNSIGNED
from . import write_destinations
from .declare import (
    EVERY,
    EVERYWHERE,
    EXACT,
    EXTREMUM,
    FLOAT,
    FLOATS,
    INTEGERS,
    NUMERIC,
    POSITIVE,
    REAL,
    ROUNDED,
    Call,
    ComplexVariant,
    Domain,
    Drawing,
    ErrorModel,
    InPlaceVariant,
    Sample,
    accumulated,
    call,
    family,
    one,
)
from .definitions import nan_kept, zeta
from .domains import EITHER_SIGN
from .hooks import Args, Kwargs, Tensors
from .magnitudes import largest
from .neighbors import next_number
from .nonunique_results import of_shares, quotient_neighbors, remainder_neighbors, zeros_aside
from .powers import (
    BOUND,
    complex_power,
    float_power,
    power,
    raised,
    scaled_by_exponent,
    times_a_power_of_two,
)
from .quotients import (
    complex_quotient,
    divided,
    reflected_quotient,
    truly_divided,
    wholly_divided,
)
from .sampling import (
    binary,
    operands,
    pointwise,
    scalar,
    shape_of,
    with_numbers,
    within,
)
from .write_destinations import ROUND, combined, divided_in_place, raised_in_place, shifted

ELEMENTWISE = frozenset({"elementwise"})
LINEAR = frozenset({"elementwise", "linear"})
TIES = frozenset({"elementwise", "ties"})
PICKS = TIES | EXTREMUM
STEPS = frozenset({"elementwise", "discontinuous"})

SCALED = Domain(specials=EITHER_SIGN, wide=(-24, 24), tiny=True)
FACTOR = Domain(specials=(*EITHER_SIGN, "tiny", "subnormal"), wide=(-10, 10), tiny=True)
PLANE = Domain(specials=EITHER_SIGN, wide=(-24, 24))
FAR = Domain(specials=EITHER_SIGN, wide=(-70, 70))  # squares of such numbers leave float32
LOGARITHMIC = Domain(
    -40.0, 40.0, points=(0.0, 17.0), specials=("inf", "-inf", "nan"), wide=(-10, 4)
)
GAMMA = Domain(0.25, 16.0, points=(1.0, 10.0), specials=("nan", "inf", "0"))
WEIGHT = Domain(specials=("0", "-0", "1", "nan", "inf"), wide=(-10, 10))
ABOVE_MINUS_ONE = Domain(-0.9375, points=(0.0,))
ZETA = Domain(1.25, 20.0, specials=("nan", "inf", "-inf", "1"))
SHIFT = Domain(0.5, 40.0, specials=("nan", "inf"))

SELECTION = replace(EXACT, backward=of_shares)
PLAIN = ErrorModel("rounded")
MONOMIAL = ErrorModel("rounded", backward="products")
QUOTIENT = replace(MONOMIAL, in_integers=ErrorModel("rounded", "output"))
CANCELLING = accumulated("pointwise", one, backward="pointwise")


def stepped(x: Any, values: Any) -> Any:
    """heaviside, NaN where its first argument is."""
    result = torch.heaviside(x, values)
    nan = isinstance(x, torch.Tensor) and result.is_floating_point()
    return torch.where(x.isnan(), math.nan, result) if nan else result


def is_power_of_two(value: Any) -> bool:
    return not isinstance(value, complex) and math.frexp(abs(value))[0] in (0.0, 0.5)


def is_short(number: float) -> bool:
    """Whether a number has few digits, so that float32 holds it, or is none."""
    return not math.isfinite(number) or number * 2.0**20 == math.floor(number * 2.0**20)


def scaled_operand(position: int) -> Any:
    """S of ``x ± alpha·y``: the product may be rounded before the sum, unless alpha is a power of
    two (then S = 0)."""

    def magnitude(args: Args, kwargs: Kwargs, outputs: Tensors) -> Any:
        alpha = kwargs.get("alpha", 1)
        zeros = (_size_of(outputs[0]) * 0.0).nan_to_num()
        # A number that float32 does not hold is rounded before the sum, too.
        inexact = [abs(x) for x in args if isinstance(x, float) and not is_short(x)]
        if is_power_of_two(alpha):
            return zeros + sum(inexact) if inexact else 0.0
        return zeros + sum(inexact) + abs(alpha) * _size_of(args[position])

    return magnitude


def _size_of(value: Any) -> Any:
    """Its magnitude; truth values have none in torch."""
    is_truth = isinstance(value, torch.Tensor) and value.dtype == torch.bool
    return value.double() if is_truth else abs(value)


def in_place(magnitude: Any) -> Any:
    """The same S for a result and what it was written into, which may be a view of more."""

    def size(args: Args, kwargs: Kwargs, outputs: Tensors) -> Any:
        s = magnitude(args, kwargs, outputs)
        if not isinstance(s, torch.Tensor):
            return s
        return tuple(s if o.shape == s.shape else largest(s) for o in outputs)

    return size


MOVES: dict[str, Any] = {"backward": "products", "wide_accumulation": False, "moves": True}
ADD = accumulated(scaled_operand(1), one, **MOVES)
ADD_IN_PLACE = accumulated(in_place(scaled_operand(1)), one, **{**MOVES, "backward": "pointwise"})
RSUB = accumulated(scaled_operand(0), one, **MOVES)
REFLECTED = replace(ROUNDED, moves=True)


def added(d: Drawing) -> Call:
    """``x ± alpha·y``, with numbers that do not overflow when scaled."""
    alpha = d.choice(None, None, None, 2, -1, scalar(d)) if d.floating else d.choice(None, 2, -1)
    alpha = alpha if d.dtype != "bool" else None
    if alpha is None:
        return call(*operands(d, REAL, REAL))
    return call(*operands(d, SCALED, SCALED), alpha=alpha)


def from_left(domain: Domain = REAL) -> Sample:
    """Reflected operators: a tensor, and the number that stands to its left."""

    def sample(d: Drawing) -> Call:
        return call(d.tensor(shape_of(d), domain), scalar(d))

    return sample


def gammas(d: Drawing) -> Call:
    """Positive numbers; or NaN beside the ends 0 and infinity, which functions ask for first."""
    if d.choice(*[False] * 7, True):
        shape = shape_of(d)
        tensors = [
            d.tensor(shape, GAMMA, values=("tokens", 0.25, 16.0, *names))
            for names in (("nan",), ("inf", "0"))
        ]
        return call(*(tensors if d.flag() else reversed(tensors)))
    if d.dtype in FLOAT and d.choice(False, False, False, True):  # another expansion from 20 on
        far = Domain(16.0, 250.0, points=(20.0, 61.0))
        return pointwise(far, far)(d)
    return pointwise(GAMMA, GAMMA)(d)


def limited(d: Drawing) -> Call:
    """A tensor and its bound, half of the time a number. Shrinks towards a number."""
    if d.flag():
        return call(*operands(d, REAL, BOUND, mixed=False))
    return call(d.tensor(shape_of(d), REAL), within(d, BOUND))


def limited_above(d: Drawing) -> Call:
    """The same; of numbers without a sign none is below a negative bound, so that nothing is
    defined there."""
    if d.dtype not in UNSIGNED:
        return limited(d)
    return call(d.tensor(shape_of(d), REAL), d.integer(0, 4))


def integers(low: int, high: int) -> Sample:
    def sample(d: Drawing) -> Call:
        shape = shape_of(d)
        first = d.tensor(d.broadcastable(shape), values=("integers", low, high))
        # The dtype of both is a wider one now and then.
        other = d.choice(None, None, None, "int64") if d.dtype not in UNSIGNED else None
        return call(
            first, d.tensor(d.broadcastable(shape), dtype=other, values=("integers", low, high))
        )

    return sample


def common_divisor(d: Drawing) -> Call:
    """Small numbers, or the whole range of the dtype beside small positive ones: the divisor of two
    smallest integers is none that the dtype holds."""
    if d.choice(False, False, True):
        shape = shape_of(d)
        low, high = INTEGER_RANGE[d.dtype]
        far: tuple[Any, ...] = ("integers", low, high)
        if low:
            far = ("powers", (high + 1).bit_length())
        return call(
            d.tensor(shape, values=far),
            d.tensor(d.broadcastable(shape), values=("integers", 1, 120)),
        )
    return integers(-60, 60)(d)


def common_multiple(d: Drawing) -> Call:
    """Numbers whose multiple the dtype holds: beyond it nothing is defined."""
    return (integers(-11, 11) if d.dtype in ("int8", "uint8") else integers(-60, 60))(d)


op = family("binary", error=ROUNDED, dtypes=FLOATS, traits=ELEMENTWISE)


# Through logarithm and exponential: the error is relative to the exponent.
AS_POWER = ComplexVariant(error=ROUNDED)
LEFT = from_left(FACTOR)
OPERATORS = [
    op("add", added, ADD, EVERY, traits=LINEAR,
       complex=True, out=True, method=True,
       inplace=InPlaceVariant("add_", shifted, error=ADD_IN_PLACE, dtypes=NUMERIC)),
    op("sub", added, ADD, NUMERIC, traits=LINEAR,
       complex=True, out=True, method=True,
       inplace=InPlaceVariant("sub_", shifted, error=ADD_IN_PLACE)),
    op("rsub", added, RSUB, NUMERIC, traits=LINEAR, complex=True),
    op("mul", binary(FACTOR), MONOMIAL, EVERY,
       complex=True, out=True, method=True,
       inplace=InPlaceVariant("mul_", combined(write_destinations.FACTOR), error=MONOMIAL,
       dtypes=NUMERIC)),
    op("div", divided, QUOTIENT, EVERY, traits=STEPS, alternatives=quotient_neighbors,
       complex=ComplexVariant(sample=complex_quotient), out=True, method=True,
       inplace=InPlaceVariant("div_", divided_in_place, error=ROUND, dtypes=FLOATS)),
    op("true_divide", truly_divided, QUOTIENT, EVERY, complex=True, out=True),
    # Quotients of small numbers may all be 0, or -1.
    op("floor_divide", wholly_divided, PLAIN, NUMERIC, traits=STEPS | {"constant"},
    differentiable=False, alternatives=quotient_neighbors),
    op("remainder", wholly_divided, MONOMIAL, NUMERIC, traits=STEPS, differentiable=False,
    alternatives=remainder_neighbors, out=True, method=True),
    op("fmod", wholly_divided, MONOMIAL, NUMERIC, traits=STEPS, differentiable=False,
    alternatives=remainder_neighbors, out=True, method=True),
    op("__radd__", from_left(), REFLECTED, EVERY, traits=LINEAR, complex=True),
    op("__rsub__", from_left(), REFLECTED, NUMERIC, traits=LINEAR, complex=True),
    op("__rmul__", LEFT, MONOMIAL, EVERY, traits=LINEAR, complex=True),
    op("__rdiv__", reflected_quotient, QUOTIENT, EVERY, complex=True),
    op("__rpow__", raised, dtypes=NUMERIC, complex=AS_POWER),
    op("pow", power, dtypes=NUMERIC,
       complex=ComplexVariant(sample=complex_power, error=ROUNDED),
       inplace=InPlaceVariant("pow_", raised_in_place, error=ROUND, dtypes=FLOATS), out=True),
    op("float_power", float_power, dtypes=EVERY,
       complex=AS_POWER, method=True, out=True),
    op("ldexp", scaled_by_exponent, dtypes=EVERY, reference=times_a_power_of_two, out=True),
    op("hypot", pointwise(FAR, FAR), out=True),
    op("atan2", pointwise(PLANE, PLANE), dtypes=EVERY, out=True, method=True),
    op("copysign", binary(), EXACT, EVERY, out=True),
    op("nextafter", pointwise(REAL, REAL), EXACT, differentiable=False, reference=next_number,
       traits=ELEMENTWISE | {"own-format"}, out=True, method=True,
       inplace=InPlaceVariant("nextafter_", write_destinations.paired())),
    op("maximum", pointwise(REAL, REAL), SELECTION, EVERY, traits=PICKS, observe=zeros_aside,
       method=True),
    op("minimum", pointwise(REAL, REAL), SELECTION, EVERY, traits=PICKS, observe=zeros_aside,
       method=True),
    op("fmax", pointwise(REAL, REAL), SELECTION, EVERY, traits=TIES, observe=zeros_aside),
    op("fmin", pointwise(REAL, REAL), SELECTION, EVERY, traits=TIES, observe=zeros_aside),
    op("clamp_min", limited, SELECTION, EVERY, traits=PICKS,
    observe=zeros_aside),
    op("clamp_max", limited_above, SELECTION, EVERY, traits=PICKS,
    observe=zeros_aside),
    op("heaviside", pointwise(Domain(points=(0.0, 1.0), specials=EVERYWHERE), REAL), EXACT, EVERY,
    differentiable=False, out=True, reference=stepped),
    op("logaddexp", pointwise(LOGARITHMIC, LOGARITHMIC), CANCELLING, complex=True, out=True),
    op("logaddexp2", pointwise(LOGARITHMIC, LOGARITHMIC), CANCELLING),
    op("xlogy", with_numbers(binary(WEIGHT, POSITIVE, mixed=False), WEIGHT, POSITIVE),
    dtypes=EVERY, out=True),
    op("special.xlog1py", with_numbers(binary(WEIGHT, ABOVE_MINUS_ONE, numbers=False, mixed=False),
    WEIGHT, ABOVE_MINUS_ONE), dtypes=EVERY),
    op("special.zeta", with_numbers(pointwise(ZETA, SHIFT), ZETA, SHIFT), CANCELLING,
    (*FLOAT, *INTEGERS, "bool"),
    differentiable=False, reference=zeta),
    op("igamma", gammas, CANCELLING, differentiable=False, out=True,
    reference=nan_kept(torch.igamma)),
    op("igammac", gammas, CANCELLING, differentiable=False,
    reference=nan_kept(torch.igammac)),
    op("gcd", common_divisor, EXACT, INTEGERS, differentiable=False),
    op("lcm", common_multiple, EXACT, INTEGERS, differentiable=False),
]  # fmt: skip
