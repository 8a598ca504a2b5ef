"""Helpers of the families' ``sample`` functions: shapes, operands that broadcast, dims to reduce
over, scalars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..core.dtypes import INTEGER_RANGE
from ..core.recipe import Arg, TensorRecipe
from .declare import REAL, Call, Domain, Drawing, Sample, call

SPECIAL_NUMBERS = {"-0": -0.0, "nan": math.nan, "inf": math.inf, "-inf": -math.inf}
# What a tensor of another dtype may have beside one of whole numbers, and beside floats.
BESIDE_INTEGERS = ("int64", "uint8", "bool", "int8", "int32", "float32", "float16", "bfloat16")
BESIDE_FLOATS = ("int64", "int32", "bool", "uint8", "float32", "float16", "bfloat16")


def shape_of(d: Drawing, low: int = 0, high: int = 4, *, elements: int = 4096) -> tuple[int, ...]:
    """Mostly small shapes of every rank, now and then one long row, rarely an empty tensor. Shrinks
    like ``d.shape``."""
    kind = d.integer(0, 15)
    if kind >= 13 and low <= 1 <= high:
        return (d.size(1, elements),)
    shape = d.shape(low, high, elements=elements)
    if kind == 12 and shape:
        empty = d.integer(0, len(shape) - 1)
        return (*shape[:empty], 0, *shape[empty + 1 :])
    return shape


def filled_shape(
    d: Drawing, low: int = 1, high: int = 4, *, elements: int = 4096
) -> tuple[int, ...]:
    """As :func:`shape_of`, but never empty."""
    if low <= 1 <= high and d.integer(0, 15) >= 13:
        return (d.size(1, elements),)
    return d.shape(low, high, elements=elements)


def scalar(d: Drawing, low: float = -4.0, high: float = 4.0) -> complex:
    """A Python number as a user would give it for the case's dtype: with complex tensors a real or
    a complex one."""
    if d.complex and d.choice(False, False, True):
        return complex(d.number(low, high), d.number(low, high))
    return real_scalar(d, low, high)


def written_scalar(d: Drawing) -> complex:
    """A Python number that is written as it is: a plain one, an end of the dtype, one that no
    format holds, NaN, an infinity or -0.0; these are parts of complex numbers, too. Shrinks towards
    a plain one."""
    plain = scalar(d)
    if d.dtype == "bool" or not d.choice(False, False, True):
        return plain
    if not d.floating:
        return d.choice(*INTEGER_RANGE[d.dtype])  # type: ignore[no-any-return]
    odd = (0.1, -0.0, math.inf, -math.inf, math.nan)
    if d.complex:
        return complex(d.choice(2.0, -2.0, *odd), d.choice(-0.0, -2.0, *odd))
    return d.choice(*odd)  # type: ignore[no-any-return]


def real_scalar(d: Drawing, low: float = -4.0, high: float = 4.0) -> float | int:
    """The same, never complex."""
    return d.number(low, high) if d.floating else d.integer(round(low), round(high))


def within(d: Drawing, domain: Domain, low: float = -4.0, high: float = 4.0) -> complex:
    """A Python number in ``domain``; now and then, where special values are, one of these or one
    that no format holds. Shrinks towards a plain one."""
    plain = scalar(d, max(low, domain.low), min(high, domain.high))
    if not d.floating or d.complex or not d.choice(False, False, False, True):
        return plain
    odd = [number for token, number in SPECIAL_NUMBERS.items() if token in domain.specials]
    if domain.specials and domain.low <= 0.1 <= domain.high:
        odd.append(0.1)
    return d.choice(plain, *odd)  # type: ignore[no-any-return]


def fitting(d: Drawing, domain: Domain, half: Domain | None) -> Domain:
    """``half`` for float16 if given: its gradients are formed in float16, and their intermediates
    overflow early."""
    return half if half is not None and d.dtype == "float16" else domain


def unary(
    domain: Domain = REAL,
    points: Mapping[str, tuple[float, ...]] | None = None,
    half: Domain | None = None,
) -> Sample:
    """One tensor. ``points`` are boundaries that depend on the dtype, such as where exp overflows;
    nothing is drawn beyond."""

    def sample(d: Drawing) -> Call:
        chosen = (points or {}).get(
            "float32" if d.dtype == "bfloat16" else d.dtype
        )  # bfloat16 reaches as far as float32
        return call(
            d.tensor(shape_of(d), bounded(domain, chosen) if chosen else fitting(d, domain, half))
        )

    return sample


def bounded(domain: Domain, points: tuple[float, ...]) -> Domain:
    """``domain`` between the lowest and the highest of ``points``."""
    low, high = min(points), max(points)
    wide = domain.wide and (domain.wide[0], min(domain.wide[1], math.frexp(min(-low, high))[1] - 2))
    return replace(domain, low=low, high=high, points=points, wide=wide)


def pointwise(*domains: Domain, half: Domain | None = None) -> Sample:
    """As many tensors as domains, broadcasting against each other."""

    def sample(d: Drawing) -> Call:
        shape = shape_of(d)
        return call(
            *(d.tensor(d.broadcastable(shape), fitting(d, domain, half)) for domain in domains)
        )

    return sample


def rarely_zero(d: Drawing, domain: Domain) -> Arg:
    """A number of a domain; 0, which often makes every result 0, less often than it is simple."""
    number = within(d, domain)
    return number if number or d.flag() else 1.0


def with_numbers(sample: Sample, left: Domain, right: Domain) -> Sample:
    """``sample``, or now and then a number in place of one of two tensors: overloads of their
    own."""

    def drawn(d: Drawing) -> Call:
        match d.choice(*["tensors"] * 4, "left", "right"):
            case "left" if d.floating:
                return call(rarely_zero(d, left), d.tensor(shape_of(d), right))
            case "right" if d.floating:
                return call(d.tensor(shape_of(d), left), rarely_zero(d, right))
        return sample(d)

    return drawn


def operands(
    d: Drawing, left: Domain, right: Domain, *, numbers: bool = True, mixed: bool = True
) -> tuple[Arg, Arg]:
    """Two operands: tensors that broadcast, one of one element (0-d or with dims of size 1), a
    Python number on the right (beside whole numbers also a fraction, or one that is large), or a
    tensor of another dtype on either side, which may be 0-d."""
    shape = shape_of(d)
    kind = d.choice(
        "tensors",
        "tensors",
        "tensors",
        "broadcast",
        "one element",
        *["number"] * numbers,
        *["dtypes", "dtypes"] * mixed,
    )
    match kind:
        case "number":
            if not d.floating and mixed and right.low <= 0.5 and d.choice(False, False, True):
                return d.tensor(shape, small(left)), d.choice(0.5, 2.25, -0.5)
            return d.tensor(shape, left), within(d, right)
        case "one element":
            one = (1,) * d.integer(0, len(shape))
            if d.choice(False, False, True):
                return d.tensor(one, left), d.tensor(shape, right)
            return d.tensor(shape, left), d.tensor(one, right)
        case "broadcast":
            return d.tensor(d.broadcastable(shape), left), d.tensor(d.broadcastable(shape), right)
        case "dtypes":
            left, right = (left, right) if d.floating else (small(left), small(right))
            zero_dim = d.choice(False, False, True)
            if d.choice(False, False, True):
                return of_other_dtype(d, () if zero_dim else shape, left), d.tensor(shape, right)
            other_shape = () if zero_dim else d.broadcastable(shape)
            return d.tensor(shape, left), of_other_dtype(d, other_shape, right)
    return d.tensor(shape, left), d.tensor(shape, right)


def small(domain: Domain) -> Domain:
    """The whole numbers of a domain that every dtype holds."""
    return replace(domain, low=max(domain.low, -9.0), high=min(domain.high, 9.0))


def of_other_dtype(d: Drawing, shape: Sequence[int], domain: Domain) -> TensorRecipe:
    """A tensor of small whole numbers, which every dtype holds, in one that is probably not the
    case's. Shrinks towards int64."""
    if d.complex:
        dtype = d.choice("int64", "int32")
    else:
        dtype = d.choice(*(BESIDE_FLOATS if d.floating else BESIDE_INTEGERS))
    low, high = math.ceil(max(domain.low, -9)), math.floor(min(domain.high, 9))
    if dtype in ("uint8", "bool"):
        low, high = max(low, 0), min(high, 1) if dtype == "bool" else high
    drawn = d.tensor(shape, domain, dtype=dtype, values=("integers", low, max(low, high)))
    # A 0-d tensor does not widen the result, in whose dtype its gradient is summed.
    return replace(drawn, leaf=bool(shape))


def binary(
    left: Domain = REAL,
    right: Domain | None = None,
    *,
    numbers: bool = True,
    mixed: bool = True,
    **options: Any,
) -> Sample:
    """Two operands (see :func:`operands`); each of ``options`` names a keyword and the values it
    takes, None for left out."""

    def sample(d: Drawing) -> Call:
        args = operands(d, left, right or left, numbers=numbers, mixed=mixed)
        extra = {name: d.choice(None, *values) for name, values in options.items()}
        return call(*args, **{name: value for name, value in extra.items() if value is not None})

    return sample


def reducible(d: Drawing, longest: int = 4096, *, low: int = 0) -> tuple[int, ...]:
    """A shape of which one dimension is often as long as a row of a real model. Shrinks to few and
    small dimensions."""
    if d.integer(0, 3) < 3:
        return d.shape(low, 4)
    length = d.size(1, longest)
    other_shape = d.shape(0, 2, most=8, elements=max(1, 16384 // length))
    at = d.integer(0, len(other_shape))
    return (*other_shape[:at], length, *other_shape[at:])


def along(
    d: Drawing,
    shape: Sequence[int],
    *,
    several: bool = True,
    full: bool = True,
    empty: bool = False,
) -> dict[str, Arg]:
    """``dim`` and ``keepdim`` of a reduction: none, one, or several dims, now and then counted
    from the end, in descending order; or with ``empty`` an empty list, which is all of them."""
    options = ["none"] * full + ["one"] + ["several"] * (several and len(shape) > 0)
    kwargs: dict[str, Arg] = {}
    match d.choice(*options):
        case "one":
            kwargs["dim"] = d.dim(shape)
        case "several" if empty and d.choice(*[False] * 5, True):
            kwargs["dim"] = []
        case "several":
            dims = d.dims(shape)
            kwargs["dim"] = [*dims]
            if d.choice(False, False, True):
                kwargs["dim"] = [dim - len(shape) for dim in reversed(dims)]
        case _:
            return kwargs
    if d.flag():
        kwargs["keepdim"] = True
    return kwargs


def permuted_positions(d: Drawing, shape: Sequence[int], dim: int, size: int) -> TensorRecipe:
    """Positions along ``dim`` of which no two in a row are equal, for writes whose order is not
    defined: ``shape[dim] <= size``.

    Every row holds the same positions. Shrinks towards 0, 1, 2, …
    """
    count = shape[dim]
    chosen = d.index((count,), size, distinct=True)
    ones = (("unsqueeze", 0),) * dim + (("unsqueeze", 1 + dim),) * (len(shape) - dim - 1)
    wide = (("expand", *shape),) if len(shape) > 1 else ()
    return replace(chosen, view=(*chosen.view, *ones, *wide))
