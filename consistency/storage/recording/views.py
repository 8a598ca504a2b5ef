"""Convert chains of views from the imported format into the steps of a recipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ...core import dtypes, recipe
from ...core.recipe import Step, TensorRecipe
from ...core.views import view_of
from ...errors import RecipeError

_METHODS = frozenset(
    {
        "transpose",
        "permute",
        "expand",
        "unfold",
        "select",
        "as_strided",
        "unsqueeze",
        "squeeze",
        "view",
    }
)
_SAME = {"swapaxes": "transpose", "swapdims": "transpose", "reshape": "view"}


def chain_of(
    base: torch.Tensor, steps: Sequence[Any], strided: tuple[tuple[int, ...], tuple[int, ...], int]
) -> tuple[Step, ...]:
    """The recipe's steps for ``{"getitem": index}`` and ``{"method": NAME, "args": […]}`` on
    ``base``.

    Empty if a step has no counterpart, or if the steps do not give ``strided`` (shape, strides,
    offset), which then describe the view.
    """
    blank = torch.empty(base.shape, dtype=torch.uint8)
    recipe_steps: list[Step] = []
    try:
        for step in steps:
            converted = (
                list(_getitem(step["getitem"], _view(blank, recipe_steps)))
                if "getitem" in step
                else [_method(step)]
            )
            recipe_steps += converted
        tensor = _view(blank, recipe_steps)
    except (RecipeError, KeyError, TypeError, ValueError, IndexError):
        return ()
    return (
        tuple(recipe_steps)
        if (tuple(tensor.shape), tensor.stride(), tensor.storage_offset()) == strided
        else ()
    )


def _view(blank: torch.Tensor, steps: Sequence[Step]) -> torch.Tensor:
    return view_of(
        blank.reshape(-1),
        TensorRecipe(tuple(blank.shape), dtypes.name_of(blank.dtype), view=tuple(steps)),
    )


def _method(step: dict[str, Any]) -> Step:
    name = _SAME.get(step["method"], step["method"])
    if name not in _METHODS:
        raise RecipeError(f"no view of recipes: {name!r:.40}")
    args = [
        number
        for item in step.get("args", ())
        for number in (item if isinstance(item, list) else [item])
    ]
    if not all(type(number) is int for number in args):
        raise RecipeError("a view whose arguments are no whole numbers")
    return (name, *args)


def _getitem(index: Any, tensor: torch.Tensor) -> Iterator[Step]:
    """Basic indexing as slices, selections and new dimensions."""
    decoded = recipe.decode(index)
    items = list(decoded) if isinstance(decoded, tuple) else [decoded]
    indexed_dims = sum(item is not None and item is not Ellipsis for item in items)
    if Ellipsis in items:
        place = items.index(Ellipsis)
        items[place : place + 1] = [recipe.Index()] * (tensor.ndim - indexed_dims)
    dim = 0
    for item in items:
        if item is None:
            yield ("unsqueeze", dim)
            dim += 1
        elif isinstance(item, recipe.Index):
            if item != recipe.Index():
                yield ("slice", dim, item.start, item.stop, item.step)
            dim += 1
        elif type(item) is int:
            yield ("select", dim, item)
        else:
            raise RecipeError("an index that makes no view")
