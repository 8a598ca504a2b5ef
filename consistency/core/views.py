"""Views: from a flat storage and a recipe's chain of views to the tensor."""

from __future__ import annotations

import math
import operator
from typing import Any

import torch

from ..errors import RecipeError
from . import recipe
from .recipe import Literal, Step, TensorRecipe

_WRONG = (RuntimeError, IndexError, TypeError, ValueError, OverflowError)  # views that do not fit
_VIEWS = frozenset(
    {
        "transpose",
        "permute",
        "expand",
        "unfold",
        "select",
        "slice",
        "as_strided",
        "unsqueeze",
        "squeeze",
        "view",
        "conj",
    }
)


def view_of(base: torch.Tensor, arg: TensorRecipe | Literal) -> torch.Tensor:
    """The argument's view over its flat ``base``, which may lie on any device. Raises
    RecipeError."""
    try:
        if isinstance(arg, Literal):
            _check_extent(base.numel(), arg.shape, arg.stride, arg.offset)
            if not arg.view:
                return torch.as_strided(base, arg.shape, arg.stride, arg.offset)
        tensor = _through(base.view(arg.base), arg.view)
        if (
            isinstance(arg, Literal)
            and (tuple(tensor.shape), tensor.stride(), tensor.storage_offset()) != arg.strided
        ):
            raise RecipeError(
                "the chain of views of a literal tensor leads to another shape, other strides or "
                "another offset"
            )
    except _WRONG as error:
        raise _refused(error) from None
    return tensor


def further_view(tensor: torch.Tensor, steps: tuple[Step, ...]) -> torch.Tensor:
    """A view of an argument. Raises RecipeError."""
    try:
        return _through(tensor, steps)
    except _WRONG as error:
        raise _refused(error) from None


def _through(tensor: torch.Tensor, steps: tuple[Step, ...]) -> torch.Tensor:
    for name, *parameters in steps:
        tensor = _step(tensor, name, parameters)
        if tensor.numel() > recipe.MAX_ELEMENTS:
            raise RecipeError(f"view {name!r:.80} makes a tensor larger than a recipe may be")
    return tensor


def _refused(error: Exception) -> RecipeError:
    if isinstance(error, RecipeError):
        return error
    return RecipeError(
        f"the chain of views does not fit its base: {str(error).splitlines()[0][:120]}"
    )


def written(base: torch.Tensor, view: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """A copy of a flat storage that holds ``values`` where a view of such a storage lies."""
    copy = base.clone()
    copy.as_strided(view.shape, view.stride(), view.storage_offset()).copy_(values)
    return copy


def _step(tensor: torch.Tensor, name: str, parameters: list[Any]) -> torch.Tensor:
    if name not in _VIEWS:
        raise RecipeError(f"unknown view {name!r:.40}; known: {', '.join(sorted(_VIEWS))}")
    if name == "slice":
        dim, start, stop, step = parameters
        if not 0 <= dim < tensor.ndim:
            raise RecipeError(
                f"slice along dimension {dim} of a tensor with {tensor.ndim} dimensions"
            )
        index = (slice(None),) * dim + (slice(start, stop, step),)
        return tensor[index]
    if name == "as_strided":
        ndim = len(parameters) // 2
        shape, stride, offset = parameters[:ndim], parameters[ndim:-1], parameters[-1]
        return tensor.as_strided(shape, stride, offset)
    result = operator.methodcaller(name, *parameters)(tensor)
    assert isinstance(result, torch.Tensor)
    return result


def _check_extent(
    elements: int, shape: tuple[int, ...], stride: tuple[int, ...], offset: int
) -> None:
    if len(shape) != len(stride) or not 0 <= offset <= elements or any(s < 0 for s in stride):
        raise RecipeError(
            f"shape {list(shape)!r:.60}, strides {list(stride)!r:.60} and offset {offset!r:.40} "
            "do not fit together"
        )
    if (
        math.prod(shape)
        and offset + sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) >= elements
    ):
        words = f"reaches beyond the {elements} stored elements"
        raise RecipeError(f"shape {list(shape)!r:.60} with strides {list(stride)!r:.60} {words}")
