"""Reading at positions, masks and slices, and looking positions up."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from ..core.dtypes import UNSIGNED
from ..core.recipe import Arg, Index, Literal, TensorRecipe
from . import definitions
from .declare import (
    EVERY,
    EXACT,
    INTEGERS,
    NUMERIC,
    REAL,
    Call,
    Domain,
    Drawing,
    Sample,
    call,
    family,
)
from .parameter_sampling import optional_arguments
from .position_tensors import positions
from .sampling import filled_shape, of_other_dtype, real_scalar, small, within

LINEAR = frozenset({"linear"})
FINITE = Domain()
EVERYTHING = Domain(specials=("0", "-0", "nan", "inf", "-inf"))
Shape = tuple[int, ...]


def somewhere(d: Drawing, *, low: int = 1, elements: int = 2048) -> tuple[Shape, int]:
    """A shape and one of its dimensions, counted from the front. Now and then there are more
    dimensions than the four that kernels are often written for. Shrinks towards few."""
    shape = filled_shape(d, low, 6 if d.integer(0, 7) == 7 else 4, elements=elements)
    return shape, d.integer(0, len(shape) - 1)


def replaced(shape: Shape, dim: int, size: int) -> Shape:
    return (*shape[:dim], size, *shape[dim + 1 :])


def either_end(d: Drawing, shape: Shape, dim: int) -> int:
    """The same dimension, now and then counted from the end. Shrinks towards ``dim``."""
    return d.choice(dim, dim, dim - len(shape))  # type: ignore[no-any-return]


def narrow_index(d: Drawing, count: int, size: int) -> TensorRecipe:
    """Positions for functions that take them as int32, too. Shrinks towards int64."""
    if d.choice(False, False, False, True):
        return d.tensor((count,), dtype="int32", values=("integers", 0, size - 1))
    return d.index((count,), size)


def row_index(d: Drawing, shape: Shape, dim: int, size: int) -> TensorRecipe:
    """Positions along ``dim``, one time in four the same for all numbers behind it: a column that
    is expanded, as programs select whole rows. Shrinks towards positions of their own."""
    behind = len(shape) - dim - 1
    if not behind or d.integer(0, 3) < 3:
        return d.index(shape, size)
    column = (*shape[: dim + 1], *[1] * behind)
    return expanded(d, column, size, shape)


def expanded(d: Drawing, column: Shape, size: int, shape: Shape) -> TensorRecipe:
    """Positions in the shape ``column``, repeated without a copy to ``shape``."""
    index = d.tensor(column, dtype="int64", values=("integers", 0, size - 1), layout=False)
    return replace(index, view=(("expand", *shape),)) if shape != column else index


def rows_of_members(d: Drawing) -> tuple[Shape, Shape, Shape]:
    """The shape of a batch of rows, a whole number of 16 bytes each, and those of a column of
    positions and of the index that it is expanded to. Shrinks towards one row of one member."""
    width = 4 * d.integer(1, 8)
    members = tuple(d.integer(1, 5) for _ in range(d.choice(1, 1, 2)))
    count = d.choice(1, 1, d.size(1, 9))
    return (
        (*members, d.size(1, 9), width),
        (*members, count, 1),
        (*members, count, width),
    )


def mask(d: Drawing, shape: Shape) -> TensorRecipe:
    return d.tensor(shape, dtype="bool")


def gathered(d: Drawing) -> Call:
    """The index may be shorter than the input in the other dimensions. One time in eight whole rows
    of the last dimension, mostly one of each member of the batch."""
    if d.integer(0, 7) == 7:
        shape, column, wide = rows_of_members(d)
        return call(d.tensor(shape, layout=d.flag()), -2, expanded(d, column, shape[-2], wide))
    shape, dim = somewhere(d)
    smaller = tuple(d.integer(1, size) if d.flag() else size for size in shape)
    if d.flag():
        smaller = shape
    index = row_index(d, replaced(smaller, dim, d.size(1, 17)), dim, shape[dim])
    return call(d.tensor(shape), either_end(d, shape, dim), index)


def taken_along(d: Drawing) -> Call:
    """Along a dim, with indices that broadcast in the others (one for all rows, say), or of all
    elements in their order. One time in eight whole rows, as of :func:`gathered`."""
    if d.integer(0, 7) == 7:
        shape, column, _ = rows_of_members(d)
        return call(d.tensor(shape, layout=d.flag()), d.index(column, shape[-2]), -2)
    shape, dim = somewhere(d)
    if d.choice(False, False, True):
        return call(d.tensor(shape), d.index((d.size(1, 17),), math.prod(shape)))
    others = tuple(1 for _ in shape) if d.choice(False, False, True) else shape
    index = d.index(replaced(others, dim, d.size(1, 17)), shape[dim])
    return call(d.tensor(shape), index, either_end(d, shape, dim))


def taken_of_contiguous(
    input: torch.Tensor, indices: torch.Tensor, dim: int | None = None
) -> torch.Tensor:
    """Without a dim, torch refuses tensors that have no view of one dimension."""
    x = input.contiguous() if dim is None else input
    return torch.take_along_dim(x, indices, dim=dim)


def selected(d: Drawing) -> Call:
    shape, dim = somewhere(d)
    index = narrow_index(d, d.size(1, 33), shape[dim])
    return call(d.tensor(shape), either_end(d, shape, dim), index)


def taken(d: Drawing) -> Call:
    shape = filled_shape(d, 1, 4)
    return call(d.tensor(shape), d.index(d.shape(0, 2, most=17), math.prod(shape), negative=True))


def masked_selected(d: Drawing) -> Call:
    shape = d.shape(1, 4, least=2)
    return call(d.tensor(shape), mask(d, d.broadcastable(shape)))


def chosen(d: Drawing) -> Call:
    """Everything broadcasts, the condition with strides of its own; one side may be a number, -0.0,
    NaN or an infinity, too, or a tensor of another dtype. Shrinks towards two tensors."""
    shape = filled_shape(d, 0, 4)
    condition, tensor = mask(d, d.broadcastable(shape)), d.tensor(d.broadcastable(shape))
    other: Arg
    match d.choice("tensors", "tensors", "number", "dtypes"):
        case "number" if d.dtype != "bool":
            other = within(d, EVERYTHING)
        case "dtypes" if d.dtype not in UNSIGNED:
            other = of_other_dtype(d, d.broadcastable(shape), EVERYTHING)
            # Of all dims: a 0-d tensor's gradient would be summed in the other one's dtype.
            tensor = d.tensor(shape, REAL if d.floating else small(EVERYTHING))
        case _:
            other = d.tensor(d.broadcastable(shape))
    return call(condition, *((tensor, other) if d.choice(False, False, True) else (other, tensor)))


def key(d: Drawing, shape: Shape, *, positions: bool = True) -> tuple[Arg, ...]:
    """The index in brackets: slices, integers, one tensor of positions, None and an ellipsis."""
    items: list[Arg] = []
    for size in shape[: d.integer(1, len(shape))]:
        match d.choice("slice", "number", "all", *["positions"] * positions):
            case "number":
                items.append(d.integer(-size, size - 1))
            case "positions":
                items.append(d.index(d.shape(1, 2, most=9), size, negative=True))
                positions = False
            case "slice":
                start = d.integer(0, size - 1)
                items.append(
                    Index(
                        start,
                        d.choice(None, d.integer(start, size), -1 if start < size - 1 else None),
                        d.integer(1, 3),
                    )
                )
            case _:
                items.append(Index())
    if d.choice(False, False, True):
        items.insert(d.integer(0, len(items)), None)
    if d.choice(False, False, True):
        items.append(...)
    return tuple(items)


def item(d: Drawing) -> Call:
    shape = filled_shape(d, 1, 4)
    if d.integer(0, 5) == 5:
        return call(d.tensor(shape), mask(d, shape[: d.integer(1, len(shape))]))
    return call(d.tensor(shape), key(d, shape))


def few_nonzero(d: Drawing) -> Call:
    values = ("sparse", 0.5) if d.dtype != "bool" else ("integers", 0, 1)
    min_rank = 0 if d.integer(0, 7) == 7 else 1  # a 0-d tensor has no positions
    return call(d.tensor(filled_shape(d, min_rank, 3), values=values))


def first_nonzero(d: Drawing) -> Call:
    """As many positions as asked for: fewer than there are, or the rest filled. Shrinks to one."""
    (x,) = few_nonzero(d).args
    return call(x, size=d.size(1, 300), **optional_arguments(d, fill_value=(0, -7, 2**40)))


def sorter(d: Drawing, shape: Shape) -> Literal:
    """Positions of boundaries of this shape: in ascending order are also those of which each
    second one stands twice."""
    row = [i - i % 2 for i in range(shape[-1])]
    return positions(d, row * math.prod(shape[:-1]), shape)


def looked_up(*, boundaries_first: bool) -> Sample:
    """Values that often hit a boundary exactly; boundaries ascend along the last dimension, from
    -inf to NaN, which is last, in any layout: in a view, too, they stay in the order of their
    base, now and then in another dtype. ``searchsorted`` takes rows of them, each for a row of the
    values.

    Shrinks towards one contiguous row."""

    def sample(d: Drawing) -> Call:
        low, high = (-8, 8) if d.flag() or not d.floating else (-3, 3)
        ends = (("-inf", "inf"), ("inf", "nan"), ("nan",))
        special = d.choice(*[()] * 7, *ends) if d.floating else ()
        rows = d.shape(1, 2, most=4) if boundaries_first and d.choice(False, False, True) else ()
        count = d.size(1, 65)
        other = d.choice(*[None] * 7, d.choice("int8", "uint8", "int64", "float64", "float16"))
        if other is not None:  # torch promotes both
            low, special = 0 if "uint8" in (other, d.dtype) else low, ()
        boundaries = d.tensor(
            (*rows, count), FINITE, values=("ascending", float(low), float(high), *special),
            dtype=other,
        )  # fmt: skip
        integer_values: tuple[Any, ...] | None = (
            ("integers", low, high) if not d.floating or d.flag() else None
        )
        if special:
            integer_values = ("tokens", float(low), float(high), "inf", "nan", "-inf")
        shape = (*rows, d.size(1, 33)) if rows else filled_shape(d, 0, 3)
        values: Arg = d.tensor(shape, Domain(float(low), float(high)), values=integer_values)
        if d.floating and other is None and d.integer(0, 3) == 3:
            values = boundaries  # each value is one
        if not rows and d.choice(False, False, False, True):
            values = real_scalar(d, low, high)
        kwargs: dict[str, Any] = {"right": True} if d.flag() else {}
        if boundaries_first and d.choice(False, False, True):
            kwargs = {"side": d.choice("right", "left")}
        if boundaries_first and count <= 32 and d.choice(False, False, True):
            kwargs["sorter"] = sorter(d, (*rows, count))
        return call(
            *((boundaries, values) if boundaries_first else (values, boundaries)),
            **kwargs,
            out_int32=d.flag(),
        )

    return sample


def unravelled(d: Drawing) -> Call:
    shape = d.shape(1, 4, most=9)
    places = d.tensor(d.shape(0, 2), values=("integers", 0, math.prod(shape) - 1))
    return call(places, tuple(shape))


op = family("indexing", error=EXACT, dtypes=EVERY, traits=LINEAR)


PLACES: dict[str, Any] = {"differentiable": False, "traits": frozenset()}
OPERATORS = [
    op("gather", gathered, complex=True, out=True, method=True),
    op(
        "take_along_dim",
        taken_along,
        reference=taken_of_contiguous,
        complex=True,
        out=True,
        method=True,
    ),
    op("index_select", selected, complex=True, out=True, method=True),
    op("take", taken, complex=True, out=True, method=True),
    op("__getitem__", item, complex=True),
    op("masked_select", masked_selected, complex=True, method=True, out=True),
    op("where", chosen, complex=True),
    op("nonzero", few_nonzero, **PLACES, complex=True),
    op("argwhere", few_nonzero, **PLACES, complex=True),
    op("nonzero_static", first_nonzero, **PLACES, complex=True),
    op("searchsorted", looked_up(boundaries_first=True), dtypes=NUMERIC, **PLACES, out=True,
       reference=definitions.searchsorted),
    op("bucketize", looked_up(boundaries_first=False), dtypes=NUMERIC, **PLACES, out=True,
       reference=definitions.bucketize),
    op("unravel_index", unravelled, dtypes=INTEGERS, **PLACES),
]  # fmt: skip
