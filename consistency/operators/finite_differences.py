"""``gradient``: slopes between neighbors, of equal or given distances."""

from __future__ import annotations

from typing import Any

import torch

from ..core.recipe import Literal
from .declare import ADDED, FLOATS, Call, Drawing, Operator, accumulated, call, one
from .hooks import Tensors, hook
from .parameter_sampling import given_numbers

NEIGHBORS = 3  # of the elements that a slope is made of no two are so far from each other
DISTANCES = (0.5, 3.0, -2.0, 0.1)


def slopes(d: Drawing) -> Call:
    """Along all dimensions or some of them, with one distance, one for each of them, or the places
    of all elements; at the ends of first or second order. Shrinks towards all, at a distance of
    1."""
    shape = tuple(min(max(size, 3), 129) for size in d.shape(1, 3, elements=4096))
    x = d.tensor(shape, ADDED)
    dims: tuple[int, ...] = tuple(range(len(shape)))
    options: dict[str, Any] = {}
    if d.flag():
        dims = tuple(d.dims(shape))
        options["dim"] = list(dims) if len(dims) > 1 or d.flag() else dims[0]
    if d.flag():
        options["edge_order"] = 2
    kind = d.choice("none", "one", "each", "places")
    if kind == "one":
        options["spacing"] = d.choice(*DISTANCES)
    elif kind == "each":
        options["spacing"] = [d.choice(*DISTANCES) for _ in dims]
    elif kind == "places":
        options["spacing"] = tuple(places(d, shape[dim]) for dim in dims)
    return call(x, **options)


def places(d: Drawing, count: int) -> Literal:
    """Ascending whole numbers, one or two apart."""
    first = d.integer(0, 2)
    return given_numbers(d, [i + (i + first) // 3 for i in range(count)], (count,))


def along(x: torch.Tensor, dim: int, spacing: Any, edge_order: int) -> torch.Tensor:
    """Σ|∂y/∂xₖ|·|xₖ|: the elements that a slope is made of are taken apart by their remainder."""
    index = torch.arange(x.shape[dim]).reshape([-1 if i == dim else 1 for i in range(x.ndim)])
    total = torch.zeros_like(x)
    for rest in range(NEIGHBORS):
        part = torch.where(index % NEIGHBORS == rest, x.abs(), 0.0)
        given = (spacing,) if isinstance(spacing, torch.Tensor) else spacing
        (slope,) = torch.gradient(part, spacing=given, dim=dim, edge_order=edge_order)
        total += slope.abs()
    return total


@hook
def of_differences(
    outputs: Tensors, x: torch.Tensor, *, spacing: Any = 1.0, dim: Any = None, edge_order: int = 1
) -> Tensors:
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    many = isinstance(spacing, (list, tuple))
    return tuple(
        along(x, axis % x.ndim, spacing[place] if many else spacing, edge_order)
        for place, axis in enumerate(dims)
    )


OPERATORS = [
    Operator(
        name="gradient",
        family="reduction",
        sample=slopes,
        dtypes=FLOATS,
        error=accumulated(of_differences, one, wide_accumulation=False),
        traits=frozenset({"linear"}),
        differentiable_inputs=(0,),
        complex=True,
    )
]
