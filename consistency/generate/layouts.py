"""Memory layouts as chains of views, built backwards: which base, and which view of it, has a given
shape?"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

Shape = tuple[int, ...]
Step = tuple[Any, ...]
Integer = Callable[[int, int], int]

LAYOUTS = (
    "transpose",
    "slice",
    "offset",
    "permute",
    "channels-last",
    "expand",
    "select",
    "unfold",
    "unit-stride",
)


def inverse(
    layout: str, shape: Shape, integer: Integer, *, overlap: bool = True
) -> tuple[Shape, Step] | None:
    """``(base, step)`` such that applying ``step`` to a tensor of shape ``base`` gives ``shape``;
    None where it cannot.

    ``integer(low, high)`` draws the free parameters (shrinking towards ``low``). With
    ``overlap=False`` no two elements of the result share memory.
    """
    rank, elements = len(shape), math.prod(shape)
    if rank == 0:
        return ((integer(1, 3),), ("select", 0, 0)) if layout in ("select", "offset") else None
    match layout:
        case "transpose" if (
            rank >= 2
        ):  # mostly of the last two dimensions, which is what programs do most
            a = rank - 2 - max(integer(0, rank) - 2, 0)
            return _swapped(shape, a, a + 1), ("transpose", a, a + 1)
        case "permute" if rank >= 3:
            order = (*range(1, rank), 0)  # the first dimension becomes the last in memory
            return (shape[-1], *shape[:-1]), ("permute", *order)
        case "channels-last" if rank >= 4:
            order = (0, rank - 1, *range(1, rank - 1))
            return (shape[0], *shape[2:], shape[1]), ("permute", *order)
        case "slice":  # every second or third element, from an offset
            dim, step, start = integer(0, rank - 1), integer(2, 3), integer(0, 2)
            stop = start + max(shape[dim] - 1, 0) * step + 1 if shape[dim] else start
            return _with(shape, dim, stop + integer(0, 2)), ("slice", dim, start, stop, step)
        case "offset":  # a block that starts some elements into its storage
            dim, start = integer(0, rank - 1), integer(1, 5)
            return _with(shape, dim, start + shape[dim] + integer(0, 2)), (
                "slice",
                dim,
                start,
                start + shape[dim],
                None,
            )
        case "select":
            return (*shape, integer(2, 3)), ("select", rank, 1)
        case "unit-stride" if 1 in shape:  # an odd stride on a dimension of size 1
            dim = shape.index(1)
            return _with(shape, dim, 3), ("slice", dim, 1, 2, None)
        case "expand" if overlap and elements > 1:
            wide = [dim for dim, size in enumerate(shape) if size > 1]
            return _with(shape, wide[integer(0, len(wide) - 1)], 1), ("expand", *shape)
        case "unfold" if overlap and rank >= 2 and elements:
            # windows that overlap: the last dimension runs within a window, the one before it over
            # windows
            count, size = shape[-2], shape[-1]
            step = integer(1, size)
            return (*shape[:-2], (count - 1) * step + size), ("unfold", rank - 2, size, step)
    return None


@functools.lru_cache(maxsize=4096)
def possible(shape: Shape, *, overlap: bool = True) -> tuple[str, ...]:
    """The layouts that ``shape`` can have, simplest first."""
    return tuple(name for name in LAYOUTS if inverse(name, shape, min, overlap=overlap) is not None)


def _with(shape: Shape, dim: int, size: int) -> Shape:
    return (*shape[:dim], size, *shape[dim + 1 :])


def _swapped(shape: Shape, a: int, b: int) -> Shape:
    sizes = list(shape)
    sizes[a], sizes[b] = sizes[b], sizes[a]
    return tuple(sizes)
