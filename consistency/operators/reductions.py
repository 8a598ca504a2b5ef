"""Sums, products, extrema and counts over all dims, one, or several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..core.dtypes import INTEGER_RANGE, UNSIGNED
from ..core.recipe import DType, TensorRecipe
from .declare import (
    ADDED,
    EVERY,
    EXACT,
    EXTREMUM,
    FLOATS,
    NUMERIC,
    Call,
    ComplexVariant,
    Domain,
    Drawing,
    Sample,
    accumulated,
    call,
    family,
    products,
    reduced,
)
from .first_positions import first_along, first_extremum
from .hooks import Args, Kwargs, Tensors, hook
from .magnitudes import part_of_sum, repeats
from .nonunique_results import argument, tied_sums, zeros_aside
from .sampling import along, fitting, reducible

REDUCTION = frozenset({"reduction"})
LINEAR = REDUCTION | {"linear"}
TIES = REDUCTION | {"ties"}
PICKS = TIES | EXTREMUM
CONSTANT = REDUCTION | {"constant"}

EXTREME = Domain(
    specials=("nan", "inf", "-inf", "0", "-0", "max", "-max"), wide=(-24, 24), tiny=True
)
SOME_NAN = Domain(specials=("nan", "-nan"), wide=(-10, 9), sums=True)
RESULT_DTYPES = {
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "float32": ("float64",),
    "float64": ("float64",),
}
SMALL = Domain(wide=(-3, 3))
# The gradient by a factor is a product of the others: where that factor is NaN, result / x is NaN,
# too, and other formulas are not. So none is NaN, but some are 0.
FACTORS = Domain(propagates=("0",))


def over(
    domain: Domain, *, full: bool = True, half: Domain | None = None, empty: bool = False
) -> Sample:
    """A tensor, and the dims to reduce: all, one, or several."""

    def sample(d: Drawing) -> Call:
        shape = reducible(d)
        kwargs = along(d, shape, full=full, empty=empty)
        return call(d.tensor(shape, fitting(d, domain, half)), **kwargs)

    return sample


def summing(domain: Domain) -> Sample:
    """As :func:`over`; sometimes with the dtype in which to add: a wider one; of whole numbers
    their own, which their sums leave, or any other, in which small ones are exact."""

    def sample(d: Drawing) -> Call:
        shape = reducible(d)
        kwargs = along(d, shape, empty=True)
        numbers = domain
        if not d.complex and d.choice(False, False, True):
            others = ("float32", "int32", "float64", "uint8", d.dtype.replace("bool", "int64"))
            chosen = d.choice(*RESULT_DTYPES.get(d.dtype, others))
            kwargs["dtype"] = DType(chosen)
            if not d.floating and chosen != d.dtype:
                numbers = replace(domain, low=-9.0, high=9.0)
        return call(d.tensor(shape, numbers), **kwargs)

    return sample


def product(d: Drawing) -> Call:
    """Factors near 1 for long rows, so that the product stays in range; any for short ones, from
    tiny to huge for very short ones.

    Below the smallest normal number products cease to shrink: of factors above 127/128 in bfloat16
    at half of it.
    """
    half = d.dtype == "float16"
    if not half and d.floating and d.choice(False, False, False, True, True):
        return zeros_beside_large(d)
    shape = d.shape(0, 3, elements=128) if half else reducible(d, 512)
    kwargs = along(d, shape, several=False)
    dim = kwargs.get("dim")
    if not d.floating:
        row = shape[dim] if isinstance(dim, int) and shape else math.prod(shape)
        values = ("integers", int(d.dtype != "bool"), 3)
        if d.dtype in ("uint8", "int8", "int16") and row <= 4 and d.flag():
            values = ("integers", *INTEGER_RANGE[d.dtype])
        return call(d.tensor(shape, values=values), **kwargs)
    row = shape[dim] if isinstance(dim, int) and shape else math.prod(shape)
    if row <= 8 and not half and d.flag():
        reach = 96 // row
        return call(d.tensor(shape, FACTORS, values=("wide", -reach, reach, 1)), **kwargs)
    octaves = math.ceil(math.log2(math.prod(shape)))
    if octaves < (3 if half else 4):
        return call(d.tensor(shape, Domain(wide=(-2, 1), specials=("0", "inf"))), **kwargs)
    spread = 2.0 ** -max(octaves if half else octaves // 2, 3)
    min_value = (
        1.0 - spread if math.prod(shape) * spread < 80.0 else 1.0
    )  # blanks are the least of a class: 1.2e-38 is exp(-87)
    return call(
        d.tensor(shape, FACTORS, values=("uniform", min_value, 1.0 + spread), overlap=False),
        **kwargs,
    )


def zeros_beside_large(d: Drawing) -> Call:
    """Rows of two or three factors: zeros, several in some rows, and numbers so large that more
    of them would leave the format. Shrinks towards few rows of two."""
    numbers = ("tokens", 2.0**40, 2.0**42, "0")
    shape = (d.size(4, 65), d.integer(2, 3))
    return call(d.tensor(shape, Domain(propagates=()), values=numbers, overlap=False), dim=-1)


def columns(d: Drawing) -> tuple[int, ...]:
    """A shape as of :func:`reducible`, or one time in four a few long rows, of which the columns
    are as short as to hold nothing but zeros now and then."""
    if not d.choice(False, False, False, True):
        return reducible(d)
    return (*d.shape(0, 1, most=4), d.integer(2, 5), d.size(128, 300))


def truth(d: Drawing, shape: Sequence[int]) -> TensorRecipe:
    """Zeros beside ones, or beside anything else that is true: whole numbers whose last bits are
    zeros, the ends of the dtype, fractions, subnormal numbers, NaN. Shrinks towards few ones."""
    if d.dtype == "bool":
        return d.tensor(shape, values=("integers", d.choice(0, 0, 1), 1))
    if d.floating:
        sparse, true = ("sparse", 1 / 256), ("nan", "-0", "subnormal", "tiny", "inf", "-inf")
        options = (sparse, sparse, ("integers", 1, 1), ("tokens", 0.0, 0.0, *true),
                   ("uniform", -1.0, 1.0), ("integers", -2, 2))  # fmt: skip
        return d.tensor(shape, Domain(propagates=()), values=d.choice(*options))
    low, high = INTEGER_RANGE[d.dtype]
    width = high.bit_length() + (low < 0)
    ends = (("integers", low, high), ("powers", width) if low < 0 else ("integers", 127, 129))
    few = (("integers", 0, 1), ("integers", 0, 1), ("integers", 1, 1), ("integers", 0, 3))
    return d.tensor(shape, values=d.choice(*few, ("integers", max(low, -2), 2), *ends))


def truths(d: Drawing) -> Call:
    """What is mostly false, or true all over, so that any and all depend on few elements; of all
    dims, one, or several."""
    shape = columns(d)
    return call(truth(d, shape), **along(d, shape))


def counted(d: Drawing) -> Call:
    shape = columns(d)
    kwargs = along(d, shape)
    return call(truth(d, shape), **({"dim": kwargs["dim"]} if "dim" in kwargs else {}))


def extreme(d: Drawing, shape: Sequence[int]) -> TensorRecipe:
    """Any numbers, one time in three few different ones with many ties, or now and then zeros of
    both signs beside the smallest number."""
    if d.dtype in UNSIGNED:  # the least of small ones is nearly always 0
        return d.tensor(shape, EXTREME, values=("integers", *d.choice((1, 250), (40, 60))))
    if d.floating and d.choice(*[False] * 9, True):
        return d.tensor(shape, EXTREME, values=("tokens", 0.0, 0.0, "-0", "0", "subnormal"))
    few = d.dtype != "bool" and d.choice(False, False, True)
    return (
        d.tensor(shape, EXTREME, values=("integers", -24, 24)) if few else d.tensor(shape, EXTREME)
    )


def extremum(d: Drawing) -> Call:
    """Of everything, or along one dim given by position, which also returns indices."""
    shape = reducible(d)
    kwargs = along(d, shape, several=False)
    return call(extreme(d, shape), *([kwargs.pop("dim")] if "dim" in kwargs else []), **kwargs)


def place(d: Drawing) -> Call:
    """Of everything, or along one dim, seldom of a single element."""
    shape = [*reducible(d)]
    kwargs = along(d, shape, several=False)
    dim = kwargs.get("dim")
    if isinstance(dim, int) and shape and shape[dim] == 1 and d.integer(0, 7):
        shape[dim] = d.integer(2, 9)
    return call(extreme(d, shape), **kwargs)


def extremes(d: Drawing) -> Call:
    """Of all dims, one, or several."""
    shape = reducible(d)
    return call(extreme(d, shape), **along(d, shape, empty=True))


def lowest_and_highest(d: Drawing) -> Call:
    shape = reducible(d)
    return call(extreme(d, shape), **along(d, shape, several=False))


def matrix(d: Drawing) -> Call:
    return call(d.tensor((d.size(1, 64), d.size(1, 64)), ADDED))


def smaller(d: Drawing) -> Call:
    """A shape that the tensor broadcasts from."""
    shape = d.shape(1, 4)
    return call(d.tensor(shape, ADDED), list(d.broadcastable(shape)))


def dims_of(args: Args, kwargs: Kwargs, position: int = 1) -> list[int]:
    dim = argument("dim", position, None, args, kwargs)
    return (
        list(range(args[0].ndim))
        if dim is None
        else list(dim)
        if isinstance(dim, (list, tuple))
        else [dim]
    )


def of_product(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """Twice |ref|: the rounding errors of factors that are equal to each other lean to one side."""
    return tuple(2.0 * output.abs() for output in outputs)


def of_factors(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """Each gradient is a product of all n other factors: √n roundings, or n where the factors
    repeat, and their roundings with them."""
    dims = dims_of(args, kwargs)
    count = math.prod(args[0].shape[dim] for dim in dims) if args[0].ndim else 1
    growth = float(count) if repeats(args[0].detach()) else math.sqrt(count)
    return tuple(output.abs() * growth for output in outputs)


op = family("reduction", dtypes=FLOATS, traits=REDUCTION)


def complex_product(d: Drawing) -> Call:
    """Short enough that moduli of up to 1.5 stay in range."""
    shape = d.shape(0, 3, elements=128)
    return call(
        d.tensor(shape, Domain(-4.0, 4.0), values=("uniform", 0.9375, 1.0625)),
        **along(d, shape, several=False),
    )


@hook
def diagonal_length(outputs: Tensors, x: Any) -> float:
    return float(min(x.shape))


SUM = products(reduced, integers_exact=True, moves=True)
ADDITION = replace(SUM, below=part_of_sum())
MEAN = products(reduced, below=part_of_sum(share=True))  # some multiply by 1/n, which is rounded
STORED = replace(SUM, wide_accumulation=False)  # partial sums are stored in the half formats
PRODUCT = accumulated(of_product, reduced, backward=of_factors, wide_accumulation=False)
TIED = tied_sums(lambda args, kwargs: argument("dim", 1, None, args, kwargs))
FIXED: dict[str, Any] = {"traits": CONSTANT, "differentiable": False}
OPERATORS = [
    op(
        "sum",
        summing(ADDED),
        ADDITION,
        (*NUMERIC, "bool"),
        traits=LINEAR,
        complex=True,
        method=True,
    ),
    op(
        "mean",
        summing(replace(ADDED, squares=True)),
        MEAN,
        traits=LINEAR,
        complex=True,
        out=True,
        method=True,
    ),
    op("nansum", summing(SOME_NAN), STORED, EVERY, out=True),
    op(
        "nanmean",
        over(SOME_NAN, half=Domain(specials=("nan",)), empty=True),
        replace(STORED, moves=False),
    ),
    op(
        "sum_to_size",
        smaller,
        SUM,
        EVERY,
        traits=LINEAR,
        complex=True,
        unspecified_aliasing="nothing is said of a sum over no dimension",
    ),
    op(
        "trace",
        matrix,
        products(diagonal_length, integers_exact=True, moves=True),
        NUMERIC,
        traits=LINEAR | {"constant"},
       complex=True),
    op("prod", product, PRODUCT, EVERY,
       complex=ComplexVariant(sample=complex_product), method=True),
    op("amax", extremes, EXACT, EVERY, traits=PICKS, observe=zeros_aside, method=True),
    op("amin", extremes, EXACT, EVERY, traits=PICKS, observe=zeros_aside, method=True),
    op("aminmax", lowest_and_highest, EXACT, EVERY, traits=PICKS, observe=zeros_aside),
    op("max", extremum, EXACT, EVERY, traits=PICKS, observe=first_along, observe_gradients=TIED),
    op("min", extremum, EXACT, EVERY, traits=PICKS, observe=first_along, observe_gradients=TIED),
    op("argmax", place, EXACT, NUMERIC, traits=PICKS, differentiable=False,
    observe=first_extremum, method=True),
    op("argmin", place, EXACT, NUMERIC, traits=PICKS, differentiable=False,
    observe=first_extremum),
    op("all", truths, EXACT, EVERY, **FIXED, complex=True, out=True, method=True),
    op("any", truths, EXACT, EVERY, **FIXED, complex=True, out=True, method=True),
    op("count_nonzero", counted, EXACT, EVERY, **FIXED, complex=True),
]  # fmt: skip
