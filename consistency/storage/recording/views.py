"""Chains of views as another format writes them, as the steps of a recipe."""

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
    """The recipe's steps for ``{"getitem": index}`` and ``{"method": NAME, "args": […]}`` over
    ``base``.

    Empty where a step has no counterpart, or where the steps do not lead to ``strided`` (shape,
    strides, offset): those three are then all there is to say.
    """
    blank = torch.empty(base.shape, dtype=torch.uint8)
    found: list[Step] = []
    try:
        for step in steps:
            made = (
                list(_getitem(step["getitem"], _view(blank, found)))
                if "getitem" in step
                else [_method(step)]
            )
            found += made
        tensor = _view(blank, found)
    except (RecipeError, KeyError, TypeError, ValueError, IndexError):
        return ()
    return (
        tuple(found)
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
    taken = sum(item is not None and item is not Ellipsis for item in items)
    if Ellipsis in items:
        place = items.index(Ellipsis)
        items[place : place + 1] = [recipe.Index()] * (tensor.ndim - taken)
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
