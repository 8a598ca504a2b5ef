"""Writing at positions, masks and slices, out of place. Repeated positions are accumulated, never
overwritten."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..core.recipe import Arg
from .declare import (
    ADDED,
    EVERY,
    FLOAT,
    INTEGERS,
    NUMERIC,
    Call,
    Domain,
    Drawing,
    InPlaceVariant,
    call,
    products,
)
from .hooks import Args, Kwargs, Tensors
from .indexing import either_end, mask, narrow_index, op, replaced, row_index, somewhere
from .magnitudes import finite
from .sampling import filled_shape, permuted_positions, scalar, written_scalar
from .write_destinations import without_overlap

NARROW = Domain(-2.0, 2.0)


def many(d: Drawing, most: int) -> int:
    """How many positions are written to, one time in five none. Shrinks towards 1."""
    return 0 if d.integer(0, 4) == 4 else d.size(1, most)


def distinct(d: Drawing, most: int) -> int:
    """The same for positions that do not repeat."""
    return 0 if d.integer(0, 4) == 4 else d.integer(1, most)


def scattered(d: Drawing, *, overlap: bool = True) -> Call:
    """From a tensor or a number, to positions that do not repeat along the dimension."""
    shape, dim = somewhere(d)
    index = replaced(
        tuple(d.integer(1, s) if d.flag() else s for s in shape), dim, distinct(d, shape[dim])
    )
    positions = permuted_positions(d, index, dim, shape[dim])
    source: Arg = written_scalar(d) if d.choice(False, False, True) else d.tensor(index)
    return call(d.tensor(shape, overlap=overlap), either_end(d, shape, dim), positions, source)


def scatter_summed(d: Drawing, *, overlap: bool = True) -> Call:
    shape, dim = somewhere(d, elements=1024)
    index = replaced(shape, dim, many(d, 65))
    return call(
        d.tensor(shape, ADDED, overlap=overlap),
        either_end(d, shape, dim),
        row_index(d, index, dim, shape[dim]),
        d.tensor(index, ADDED),
    )


def reduction(d: Drawing) -> tuple[str, Domain]:
    """How to reduce, and numbers whose product neither overflows nor vanishes in float16."""
    how = d.choice("prod", "amax", "amin", *["mean"] * d.floating)
    return how, Domain(0.5, 2.0) if how == "prod" and d.dtype == "float16" else NARROW


def scatter_reduced(d: Drawing, *, overlap: bool = True) -> Call:
    shape, dim = somewhere(d, elements=512)
    index = replaced(shape, dim, many(d, 9))
    how, domain = ("sum", NARROW) if d.flag() else reduction(d)
    positions = row_index(d, index, dim, shape[dim])
    return call(
        d.tensor(shape, domain, overlap=overlap),
        either_end(d, shape, dim),
        positions,
        d.tensor(index, domain),
        how,
        include_self=d.choice(True, False),
    )


def index_reduced(d: Drawing) -> Call:
    shape, dim = somewhere(d, elements=512)
    count = d.size(1, 9)
    how, domain = reduction(d)
    source = d.tensor(replaced(shape, dim, count), domain)
    return call(
        d.tensor(shape, domain),
        either_end(d, shape, dim),
        d.index((count,), shape[dim]),
        source,
        how,
        include_self=d.choice(True, False),
    )


def index_added(d: Drawing, *, overlap: bool = True) -> Call:
    shape, dim = somewhere(d, elements=1024)
    count = many(d, 65)
    alpha = {"alpha": scalar(d)} if d.flag() and d.dtype != "bool" else {}
    if alpha and d.floating and not d.complex and d.choice(False, False, False, True):
        alpha = {"alpha": 0.1}
    source = d.tensor(replaced(shape, dim, count), ADDED)
    return call(
        d.tensor(shape, ADDED, overlap=overlap),
        either_end(d, shape, dim),
        narrow_index(d, count, shape[dim]),
        source,
        **alpha,
    )


def index_copied(d: Drawing, *, overlap: bool = True) -> Call:
    shape, dim = somewhere(d)
    count = distinct(d, shape[dim])
    source = d.tensor(replaced(shape, dim, count))
    index = d.index((count,), shape[dim], distinct=True)
    return call(d.tensor(shape, overlap=overlap), either_end(d, shape, dim), index, source)


def index_filled(d: Drawing, *, overlap: bool = True) -> Call:
    shape, dim = somewhere(d)
    value: Arg = d.tensor(()) if d.flag() else written_scalar(d)
    index = d.index((many(d, 9),), shape[dim])
    return call(d.tensor(shape, overlap=overlap), either_end(d, shape, dim), index, value)


def index_put(d: Drawing, *, overlap: bool = True) -> Call:
    """One row of positions for each of the first dimensions; accumulating where they may repeat."""
    shape, _ = somewhere(d, elements=1024)
    if d.flag():
        count = many(d, 33)
        positions = tuple(
            d.index((count,), size, negative=True) for size in shape[: d.integer(1, len(shape))]
        )
        values = d.tensor(
            (count, *shape[len(positions) :]) if d.flag() else shape[len(positions) :], ADDED
        )
        return call(d.tensor(shape, ADDED, overlap=overlap), positions, values, accumulate=True)
    if d.flag():
        return call(d.tensor(shape, overlap=overlap), (mask(d, shape),), d.tensor(()))
    count = distinct(d, shape[0])
    return call(
        d.tensor(shape, overlap=overlap),
        (d.index((count,), shape[0], distinct=True),),
        d.tensor((count, *shape[1:])),
    )


def put(d: Drawing) -> Call:
    shape = filled_shape(d, 1, 3, elements=512)
    size = math.prod(shape)
    if d.flag():
        count = (many(d, 33),)
        return call(
            d.tensor(shape, ADDED),
            d.index(count, size, negative=True),
            d.tensor(count, ADDED),
            accumulate=True,
        )
    count = (distinct(d, size),)
    return call(d.tensor(shape), d.index(count, size, distinct=True), d.tensor(count))


def fill_value(d: Drawing) -> Arg:
    """A value that attention masks are filled with, an ordinary number, one that no format holds,
    NaN, or a 0-d tensor, beside floats also of whole numbers. Shrinks towards 0."""
    if d.flag():
        if d.floating and d.choice(False, False, True):
            return d.tensor((), dtype="int64", values=("integers", -9, 9))
        return d.tensor(())
    if not d.floating or d.complex:
        return written_scalar(d)
    usual = (0.0, -math.inf, -65504.0, d.number(-4, 4))
    return d.choice(*usual, *usual, 0.1, -0.0, math.inf, math.nan)


def masked_filled(d: Drawing, *, overlap: bool = True) -> Call:
    shape = filled_shape(d, 0, 4)
    return call(d.tensor(shape, overlap=overlap), mask(d, d.broadcastable(shape)), fill_value(d))


def masked_scattered(d: Drawing) -> Call:
    shape = filled_shape(d, 1, 3)
    return call(
        d.tensor(shape),
        mask(d, d.broadcastable(shape)),
        d.tensor((math.prod(shape) + d.integer(0, 3),)),
    )


def counted(d: Drawing) -> Call:
    """The number of occurrences of each integer, or the sum of its weights."""
    size = d.size(1, 256)
    dtype = "int64" if d.floating else d.dtype  # floats are those of the weights
    largest = 9 if dtype in ("int8", "uint8", "int16") else d.choice(9, 9, 9, 300, 70000)
    numbers = d.tensor((size,), dtype=dtype, values=("integers", 0, largest))
    weights = {"weights": d.tensor((size,), ADDED)} if d.flag() and d.floating else {}
    return call(numbers, **weights, minlength=d.choice(0, 16))


def longest_side(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    """n: at most all numbers of the last tensor are added to one element."""
    items = [
        item
        for arg in (*args[1:], *kwargs.values())
        for item in (arg if isinstance(arg, tuple) else (arg,))
    ]
    return 1.0 + max(
        (max(t.shape, default=1) for t in items if isinstance(t, torch.Tensor)), default=1
    )


def of_factors_written(args: Args, kwargs: Kwargs, outputs: Tensors) -> Any:
    """S of gradients: a product's holds the roundings of all factors that were written there."""
    if "prod" not in (*[arg for arg in args if isinstance(arg, str)], kwargs.get("reduce")):
        return "products"
    return tuple(longest_side(args, kwargs, outputs) * finite(output.abs()) for output in outputs)


# One after the other into the same place, which in the half formats is rounded each time.
SCATTERED = products(
    longest_side, growth="linear", integers_exact=True, wide_accumulation=False, moves=True
)
REDUCED = products(
    longest_side, growth="linear", wide_accumulation=False, backward=of_factors_written
)


OPERATORS = [
    op("scatter", scattered,
       complex=True, out=True, method=True,
       inplace=InPlaceVariant("scatter_", without_overlap(scattered), complex=False)),
    op("index_copy", index_copied,
       complex=True, out=True,
       inplace=InPlaceVariant("index_copy_", without_overlap(index_copied), complex=False)),
    op("index_fill", index_filled,
       complex=True,
       inplace=InPlaceVariant("index_fill_", without_overlap(index_filled), complex=False)),
    op("masked_fill", masked_filled,
       complex=True, method=True,
       inplace=InPlaceVariant("masked_fill_", without_overlap(masked_filled), complex=False)),
    op("masked_scatter", masked_scattered, complex=True),
    op("scatter_add", scatter_summed, SCATTERED, EVERY,
       complex=True, out=True, method=True,
       inplace=InPlaceVariant("scatter_add_", without_overlap(scatter_summed), complex=False)),
    op("index_add", index_added, SCATTERED, EVERY,
       complex=True, out=True, method=True,
       inplace=InPlaceVariant("index_add_", without_overlap(index_added), complex=False)),
    op("index_put", index_put, SCATTERED, EVERY,
       complex=True, method=True,
       inplace=InPlaceVariant("index_put_", without_overlap(index_put), complex=False)),
    op("put", put, SCATTERED, EVERY, complex=True),
    op("scatter_reduce", scatter_reduced, REDUCED, NUMERIC, traits=frozenset({"ties"}), out=True,
       inplace=InPlaceVariant("scatter_reduce_", without_overlap(scatter_reduced),
                              traits=frozenset({"ties"}), complex=False)),
    op("index_reduce", index_reduced, REDUCED, NUMERIC, traits=frozenset({"ties"}), out=True),
    op("bincount", counted, SCATTERED, (*FLOAT, *INTEGERS), differentiable=False,
       traits=frozenset({"constant"})),
]  # fmt: skip
