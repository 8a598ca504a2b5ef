"""Rearranging one tensor: views, shapes, orders, diagonals. Any difference is an error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..core.dtypes import TORCH
from ..core.recipe import Arg, DType, MemoryFormat
from .declare import EVERY, EXACT, REAL, Call, Drawing, InPlaceVariant, Operator, Sample, call
from .sampling import filled_shape
from .write_destinations import triangle_in_place

LINEAR = frozenset({"linear"})
VIEW = frozenset({"linear", "view"})
Shape = tuple[int, ...]
Arguments = Callable[[Drawing, Shape], Sequence[Arg]]


def moved(
    arguments: Arguments = lambda d, shape: (),
    low: int = 0,
    high: int = 4,
    *,
    layout: bool = True,
    least: int = 1,
) -> Sample:
    """A tensor of ``low`` to ``high`` dimensions, then what ``arguments`` draws for its shape."""

    def sample(d: Drawing) -> Call:
        shape = (
            filled_shape(d, low, high) if least == 1 else d.shape(low, high, least=least, most=16)
        )
        return call(d.tensor(shape, REAL, layout=layout), *arguments(d, shape))

    return sample


def order(d: Drawing, shape: Shape) -> list[int]:
    """A permutation of the dimensions. Shrinks towards the identity."""
    remaining, chosen = list(range(len(shape))), []
    while remaining:
        chosen.append(remaining.pop(d.integer(0, len(remaining) - 1)))
    return chosen


def factored(d: Drawing, shape: Shape) -> list[int]:
    """Another shape with as many elements; one of its sizes is sometimes -1."""
    remaining, sizes = math.prod(shape), []
    for factor in (2, 3, 4, 5, 8):
        if remaining % factor == 0 and d.flag():
            sizes.append(factor)
            remaining //= factor
    sizes.insert(d.integer(0, len(sizes)), -1 if remaining and d.flag() else remaining)
    return sizes


def viewed(d: Drawing) -> Call:
    """Another shape, or the same bytes as numbers of another dtype, some of them behind the
    beginning of their memory. Shrinks towards another shape."""
    if d.choice(False, False, False, True):
        into = d.choice(*(name for name in TORCH if name not in (d.dtype, "bool")))
        # Longer numbers need rows of whole ones, which begin where one of them may.
        width = d.integer(1, 4) * max(TORCH[into].itemsize // TORCH[d.dtype].itemsize, 1)
        rows = d.integer(1, 5)
        x = d.tensor((rows, width), REAL, layout=False)
        if d.flag():  # the rows but the first one
            first = (("slice", 0, 1, None, None),)
            x = replace(x, base=(rows + 1, width), view=first, stop=x.stop + width)
        return call(x, DType(into))
    shape = filled_shape(d, 0, 4)
    return call(d.tensor(shape, REAL, layout=False), factored(d, shape))


def enlarged(d: Drawing, shape: Shape) -> list[int]:
    """Sizes that ``shape`` expands to: ones become more, others may be left as -1, dimensions are
    put in front."""
    front = [d.integer(1, 4) for _ in range(d.integer(0, 2))]
    return front + [d.integer(1, 5) if size == 1 else d.choice(size, -1) for size in shape]


def with_ones(d: Drawing) -> Shape:
    return tuple(1 if d.flag() else size for size in filled_shape(d, 0, 4, elements=512))


def expanded(d: Drawing) -> Call:
    shape = with_ones(d)
    return call(d.tensor(shape), enlarged(d, shape))


def expanded_like(d: Drawing) -> Call:
    shape = with_ones(d)
    sizes = enlarged(d, shape)
    front = len(sizes) - len(shape)
    return call(
        d.tensor(shape),
        d.tensor([shape[i - front] if size == -1 else size for i, size in enumerate(sizes)]),
    )


def windows(d: Drawing, shape: Shape) -> Sequence[Arg]:
    dim = d.dim(shape)
    return dim, d.integer(1, shape[dim]), d.integer(1, 4)


def part(d: Drawing, shape: Shape) -> Sequence[Arg]:
    dim = d.dim(shape)
    start = d.integer(0, shape[dim] - 1)
    return dim, start, d.integer(1, shape[dim] - start)


def selected(d: Drawing, shape: Shape) -> Sequence[Arg]:
    dim = d.dim(shape)
    return dim, d.integer(-shape[dim], shape[dim] - 1)


def two_dims(d: Drawing, shape: Shape) -> tuple[int, int]:
    first = d.integer(0, len(shape) - 1)
    return first, (first + d.integer(1, len(shape) - 1)) % len(shape)


def diagonal(d: Drawing, shape: Shape) -> Sequence[Arg]:
    return d.integer(-3, 3), *two_dims(d, shape)


def quarter_turns(d: Drawing, shape: Shape) -> Sequence[Arg]:
    return d.integer(-3, 5), list(two_dims(d, shape))


def rolled(d: Drawing, shape: Shape) -> Sequence[Arg]:
    """By how much, also beyond the size: all elements in their order, or along each of several
    dims, which may be counted from the end, or along one that is no list. Shrinks towards 0."""
    far = d.choice(7, 7, 300)
    if not shape or not d.flag():
        return (d.integer(-far, far),)
    dims = [*d.dims(shape)]
    if d.choice(False, False, True):
        dims = [dim - len(shape) for dim in reversed(dims)]
    if len(dims) == 1 and d.flag():
        return d.integer(-far, far), dims[0]
    return [d.integer(-far, far) for _ in dims], dims


def moved_dims(d: Drawing, shape: Shape) -> Sequence[Arg]:
    count = d.integer(1, len(shape))
    return order(d, shape)[:count], order(d, shape)[:count]


def unflattened(d: Drawing) -> Call:
    shape, dim = list(d.shape(1, 3, most=8)), 0
    dim = d.dim(shape)
    sizes = [d.integer(1, 4), d.integer(1, 4)]
    shape[dim] = math.prod(sizes)
    return call(d.tensor(shape), dim, sizes)


def squeezed(d: Drawing) -> Call:
    shape = with_ones(d)
    if not shape or not d.flag():
        return call(d.tensor(shape))
    return call(d.tensor(shape), d.dim(shape) if d.flag() else d.dims(shape))


def strided(d: Drawing) -> Call:
    """Sizes and strides that stay inside of a contiguous tensor; elements may overlap."""
    sizes = [d.integer(1, 6) for _ in range(d.integer(1, 3))]
    strides = [d.integer(0, 5) for _ in sizes]
    offset = d.integer(0, 5)
    extent = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) + 1
    x = d.tensor((extent + d.integer(0, 4),), layout=False)
    return call(x, sizes, strides, *([offset] if offset or d.flag() else []))


def shuffled(up: bool) -> Sample:
    def sample(d: Drawing) -> Call:
        batch, factor = d.shape(0, 1, most=3), d.integer(1, 3)
        channels, height, width = d.integer(1, 4), d.integer(1, 7), d.integer(1, 7)
        block = (
            (channels * factor**2, height, width)
            if up
            else (channels, height * factor, width * factor)
        )
        return call(d.tensor((*batch, *block)), factor)

    return sample


def channels_shuffled(d: Drawing) -> Call:
    groups = d.integer(1, 4)
    return call(
        d.tensor((d.integer(1, 3), groups * d.integer(1, 4), *d.shape(1, 2, most=8))), groups
    )


def in_format(d: Drawing) -> Call:
    """contiguous and clone: as they are, or brought to channels_last."""
    shape = d.shape(0, 4, elements=2048)
    if len(shape) == 4 and d.flag():
        return call(d.tensor(shape), memory_format=MemoryFormat("channels_last"))
    return call(d.tensor(shape))


def op(name: str, sample: Sample, traits: frozenset[str] = LINEAR, **more: Any) -> Operator:
    return Operator(
        name=name,
        family="movement",
        sample=sample,
        error=EXACT,
        dtypes=EVERY,
        traits=traits,
        **{"complex": True} | more,
    )


def view(name: str, sample: Sample, **more: Any) -> Operator:
    return op(name, sample, VIEW, **more)


# Of torch.reshape and torch.flatten, in torch's documentation.
RESHAPED = "torch.reshape: 'you should not depend on the copying vs. viewing behavior'"
FLATTENED = "torch.flatten: 'may return the original object, a view, or copy'"

OPERATORS = [
    view(
        "reshape",
        moved(lambda d, s: [factored(d, s)]),
        method=True,
        unspecified_aliasing=RESHAPED,
    ),
    view("view", viewed),
    view(
        "reshape_as",
        moved(lambda d, s: [d.tensor([math.prod(s)])]),
        unspecified_aliasing=RESHAPED,
    ),
    view("view_as", moved(lambda d, s: [d.tensor([math.prod(s)])], layout=False)),
    view(
        "flatten",
        moved(lambda d, s: [d.integer(0, 1), d.choice(-1, -1, 1)], 2),
        unspecified_aliasing=FLATTENED,
    ),
    view("ravel", moved()),
    view("unflatten", unflattened),
    view("transpose", moved(lambda d, s: [d.dim(s), d.dim(s)]), method=True),
    view("swapaxes", moved(lambda d, s: [d.dim(s), d.dim(s)], 1)),
    view("swapdims", moved(lambda d, s: [d.dim(s), d.dim(s)], 1)),
    view("t", moved(low=0, high=2)),
    view("mT", moved(low=2), function=lambda x: x.mT),
    view("T", moved(low=2, high=2), function=lambda x: x.T),
    view("permute", moved(lambda d, s: [order(d, s)]), method=True),
    view("movedim", moved(moved_dims, 1)),
    view("moveaxis", moved(moved_dims, 1)),
    view("squeeze", squeezed, method=True),
    view("unsqueeze", moved(lambda d, s: [d.integer(-len(s) - 1, len(s))], high=3), method=True),
    view("expand", expanded, method=True),
    view("expand_as", expanded_like),
    view("broadcast_to", expanded),
    view("narrow", moved(part, 1), method=True),
    op("narrow_copy", moved(part, 1), differentiable=False, out=True),
    view("select", moved(selected, 1), method=True),
    view("unfold", moved(windows, 1), method=True),
    view("as_strided", strided),
    view("diagonal", moved(diagonal, 2), method=True),
    op("diag", moved(lambda d, s: [d.integer(-2, 2)], 1, 2, least=3), out=True),
    op("diagflat", moved(lambda d, s: [d.integer(-2, 2)], 0, 2, least=2)),
    op(
        "diag_embed",
        moved(lambda d, s: [d.integer(-2, 2), *d.choice((-2, -1), (0, 1), (-1, 0))], 1, 3, least=2),
    ),
    op(
        "tril",
        moved(lambda d, s: [d.integer(-3, 3)], 2),
        method=True,
        inplace=InPlaceVariant("tril_", triangle_in_place, complex=False),
    ),
    op(
        "triu",
        moved(lambda d, s: [d.integer(-3, 3)], 2),
        inplace=InPlaceVariant("triu_", triangle_in_place, complex=False),
    ),
    op("flip", moved(lambda d, s: [list(d.dims(s, least=0))]), method=True),
    op("fliplr", moved(low=2)),
    op("flipud", moved(low=1)),
    op("rot90", moved(quarter_turns, 2)),
    op("roll", moved(rolled), method=True),
    view("atleast_1d", moved(high=2)),
    view("atleast_2d", moved(high=3)),
    view("atleast_3d", moved()),
    op("contiguous", in_format),
    op("clone", in_format, method=True),
    op("nn.functional.pixel_shuffle", shuffled(up=True)),
    op("nn.functional.pixel_unshuffle", shuffled(up=False)),
    op(
        "nn.functional.channel_shuffle",
        channels_shuffled,
        unspecified_aliasing="one group is a view on the CPU and a copy elsewhere",
    ),
]
