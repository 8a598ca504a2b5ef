"""Reading and writing at positions, masks and slices. Writes to one place twice happen only where they add up."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..recipe import Arg, Index, TensorRecipe
from .declare import EVERY, EXACT, FLOAT, NUMERIC, SUMMED, Call, Domain, Drawing, ErrorModel, Operator, Sample, call, products
from .observing import Args, Kwargs, Tensors
from .sampling import filled_shape, permuted_positions, scalar

LINEAR = frozenset({"linear"})
NARROW = Domain(-2.0, 2.0)
Shape = tuple[int, ...]


def somewhere(d: Drawing, *, low: int = 1, elements: int = 2048) -> tuple[Shape, int]:
    """A shape and one of its dimensions, counted from the front."""
    shape = filled_shape(d, low, 4, elements=elements)
    return shape, d.integer(0, len(shape) - 1)


def replaced(shape: Shape, dim: int, size: int) -> Shape:
    return (*shape[:dim], size, *shape[dim + 1 :])


def mask(d: Drawing, shape: Shape) -> TensorRecipe:
    return d.tensor(shape, dtype="bool")


def gathered(d: Drawing) -> Call:
    """The index may be shorter than the input in the other dimensions."""
    shape, dim = somewhere(d)
    smaller = tuple(d.integer(1, size) if d.flag() else size for size in shape)
    return call(d.tensor(shape), dim, d.index(replaced(smaller, dim, d.size(1, 17)), shape[dim]))


def taken_along(d: Drawing) -> Call:
    shape, dim = somewhere(d)
    return call(d.tensor(shape), d.index(replaced(shape, dim, d.size(1, 17)), shape[dim]), dim)


def selected(d: Drawing) -> Call:
    shape, dim = somewhere(d)
    return call(d.tensor(shape), dim, d.index((d.size(1, 33),), shape[dim]))


def taken(d: Drawing) -> Call:
    shape = filled_shape(d, 1, 4)
    return call(d.tensor(shape), d.index(d.shape(0, 2, most=17), math.prod(shape), negative=True))


def scattered(d: Drawing) -> Call:
    """From a tensor or a number, to positions that do not repeat along the dimension."""
    shape, dim = somewhere(d)
    index = replaced(tuple(d.integer(1, s) if d.flag() else s for s in shape), dim, d.integer(1, shape[dim]))
    positions = permuted_positions(d, index, dim, shape[dim])
    source: Arg = scalar(d) if d.choice(False, False, True) else d.tensor(index)
    return call(d.tensor(shape), dim, positions, source)


def scatter_summed(d: Drawing) -> Call:
    shape, dim = somewhere(d, elements=1024)
    index = replaced(shape, dim, d.size(1, 65))
    return call(d.tensor(shape, SUMMED), dim, d.index(index, shape[dim]), d.tensor(index, SUMMED))


def reduction(d: Drawing) -> tuple[str, Domain]:
    """How to reduce, and numbers whose product neither overflows nor vanishes in float16."""
    how = d.choice("prod", "amax", "amin", *["mean"] * d.floating)
    return how, Domain(0.5, 2.0) if how == "prod" and d.dtype == "float16" else NARROW


def scatter_reduced(d: Drawing) -> Call:
    shape, dim = somewhere(d, elements=512)
    index = replaced(shape, dim, d.size(1, 9))
    how, domain = ("sum", NARROW) if d.flag() else reduction(d)
    positions = d.index(index, shape[dim])
    return call(d.tensor(shape, domain), dim, positions, d.tensor(index, domain), how, include_self=d.choice(True, False))


def index_reduced(d: Drawing) -> Call:
    """Without products in the half formats: torch (2.4 to 2.13, CPU) raises an internal assertion for rows of stride 0 or size 1."""
    shape, dim = somewhere(d, elements=512)
    count = d.size(1, 9)
    how, domain = reduction(d) if d.dtype not in HALF else (d.choice("amax", "amin", "mean"), NARROW)
    source = d.tensor(replaced(shape, dim, count), domain)
    return call(d.tensor(shape, domain), dim, d.index((count,), shape[dim]), source, how, include_self=d.choice(True, False))


def index_added(d: Drawing) -> Call:
    shape, dim = somewhere(d, elements=1024)
    count = d.size(1, 65)
    alpha = {"alpha": scalar(d)} if d.flag() and d.dtype != "bool" else {}
    return call(d.tensor(shape, SUMMED), dim, d.index((count,), shape[dim]), d.tensor(replaced(shape, dim, count), SUMMED), **alpha)


def index_copied(d: Drawing) -> Call:
    shape, dim = somewhere(d)
    count = d.integer(1, shape[dim])
    return call(d.tensor(shape), dim, d.index((count,), shape[dim], distinct=True), d.tensor(replaced(shape, dim, count)))


def index_filled(d: Drawing) -> Call:
    shape, dim = somewhere(d)
    value: Arg = d.tensor(()) if d.flag() else scalar(d)
    return call(d.tensor(shape), dim, d.index((d.size(1, 9),), shape[dim]), value)


def index_put(d: Drawing) -> Call:
    """One row of positions for each of the first dimensions; accumulating where they may repeat."""
    shape, _ = somewhere(d, elements=1024)
    if d.flag():
        count = d.size(1, 33)
        positions = tuple(d.index((count,), size, negative=True) for size in shape[: d.integer(1, len(shape))])
        values = d.tensor((count, *shape[len(positions) :]) if d.flag() else shape[len(positions) :], SUMMED)
        return call(d.tensor(shape, SUMMED), positions, values, accumulate=True)
    if d.flag():
        return call(d.tensor(shape), (mask(d, shape),), d.tensor(()))
    count = d.integer(1, shape[0])
    return call(d.tensor(shape), (d.index((count,), shape[0], distinct=True),), d.tensor((count, *shape[1:])))


def put(d: Drawing) -> Call:
    shape = filled_shape(d, 1, 3, elements=512)
    size = math.prod(shape)
    if d.flag():
        count = (d.size(1, 33),)
        return call(d.tensor(shape, SUMMED), d.index(count, size, negative=True), d.tensor(count, SUMMED), accumulate=True)
    count = (d.integer(1, size),)
    return call(d.tensor(shape), d.index(count, size, distinct=True), d.tensor(count))


def fill_value(d: Drawing) -> Arg:
    """What attention masks are filled with, an ordinary number, or a 0-d tensor."""
    if d.flag():
        return d.tensor(())
    return scalar(d) if not d.floating else d.choice(0.0, -math.inf, -65504.0, d.number(-4, 4))


def masked_filled(d: Drawing) -> Call:
    shape = filled_shape(d, 0, 4)
    return call(d.tensor(shape), mask(d, d.broadcastable(shape)), fill_value(d))


def masked_selected(d: Drawing) -> Call:
    shape = d.shape(1, 4, least=2)
    return call(d.tensor(shape), mask(d, d.broadcastable(shape)))


def masked_scattered(d: Drawing) -> Call:
    shape = filled_shape(d, 1, 3)
    return call(d.tensor(shape), mask(d, d.broadcastable(shape)), d.tensor((math.prod(shape) + d.integer(0, 3),)))


def chosen(d: Drawing) -> Call:
    """Everything broadcasts, the condition with strides of its own; one side may be a number."""
    shape = filled_shape(d, 0, 4)
    left: Arg = scalar(d) if d.choice(False, False, True) and d.dtype != "bool" else d.tensor(d.broadcastable(shape))
    return call(mask(d, d.broadcastable(shape)), left, d.tensor(d.broadcastable(shape)))


def key(d: Drawing, shape: Shape, *, positions: bool = True) -> tuple[Arg, ...]:
    """What stands between the brackets: slices, whole numbers, one tensor of positions, None and an ellipsis."""
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
                    Index(start, d.choice(None, d.integer(start, size), -1 if start < size - 1 else None), d.integer(1, 3))
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
    values = ("sparse", 0.25) if d.dtype != "bool" else ("integers", 0, 1)
    return call(d.tensor(filled_shape(d, 0, 3), values=values))


def looked_up(boundaries_first: bool, **options: Any) -> Sample:
    """Values that often hit a boundary exactly; boundaries ascend along the last dimension."""

    def sample(d: Drawing) -> Call:
        low, high = (-8, 8) if d.flag() or not d.floating else (-3, 3)
        boundaries = d.tensor((d.size(1, 65),), NARROW, values=("ascending", float(low), float(high)), layout=False)
        whole = ("integers", low, high) if not d.floating or d.flag() else None
        values = d.tensor(filled_shape(d, 0, 3), Domain(float(low), float(high)), values=whole)
        kwargs = {"right": True} if d.flag() else {}
        return call(*((boundaries, values) if boundaries_first else (values, boundaries)), **kwargs, out_int32=d.flag())

    return sample


def unravelled(d: Drawing) -> Call:
    shape = d.shape(1, 4, most=9)
    return call(d.index(d.shape(0, 2), math.prod(shape)), tuple(shape))


def counted(d: Drawing) -> Call:
    """How often each whole number occurs, or the sum of its weights."""
    size = d.size(1, 256)
    numbers = d.tensor((size,), dtype="int64", values=("integers", 0, 9))
    weights = {"weights": d.tensor((size,), SUMMED)} if d.flag() else {}
    return call(numbers, **weights, minlength=d.choice(0, 16))


def longest_side(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    """n: at most every number of the last tensor lands in one place."""
    tensors = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, torch.Tensor)]
    return 1.0 + max((max(t.shape, default=1) for t in tensors[1:]), default=1)


def op(name: str, sample: Sample, error: ErrorModel = EXACT, dtypes: tuple[str, ...] = EVERY, **more: Any) -> Operator:
    return Operator(name=name, family="indexing", sample=sample, error=error, dtypes=dtypes, **{"traits": LINEAR} | more)


# One after the other into the same place, which in the half formats is rounded each time.
ADDED = products(longest_side, growth="linear", integers_exact=True, wide_accumulation=False)
REDUCED = products(longest_side, growth="linear", wide_accumulation=False)
PLACES: dict[str, Any] = {"differentiable": False, "traits": frozenset()}
OPERATORS = [
    op("gather", gathered),
    op("take_along_dim", taken_along),
    op("index_select", selected),
    op("take", taken),
    op("__getitem__", item),
    op("masked_select", masked_selected),
    op("where", chosen),
    op("scatter", scattered),
    op("index_copy", index_copied),
    op("index_fill", index_filled),
    op("masked_fill", masked_filled),
    op("masked_scatter", masked_scattered),
    op("scatter_add", scatter_summed, ADDED, NUMERIC),
    op("index_add", index_added, ADDED, NUMERIC),
    op("index_put", index_put, ADDED, NUMERIC),
    op("put", put, ADDED, NUMERIC),
    op("scatter_reduce", scatter_reduced, REDUCED, NUMERIC, traits=frozenset({"ties"})),
    op("index_reduce", index_reduced, REDUCED, NUMERIC, traits=frozenset({"ties"})),
    op("bincount", counted, ADDED, FLOAT, differentiable=False),
    op("nonzero", few_nonzero, **PLACES),
    op("argwhere", few_nonzero, **PLACES),
    op("searchsorted", looked_up(boundaries_first=True), dtypes=NUMERIC, **PLACES),
    op("bucketize", looked_up(boundaries_first=False), dtypes=NUMERIC, **PLACES),
    op("unravel_index", unravelled, dtypes=("int64",), **PLACES),
]
