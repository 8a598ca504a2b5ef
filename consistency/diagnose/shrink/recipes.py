"""Simpler recipes, for failures that literal tensors do not reproduce: the judge knows how the
numbers of a recipe were made.

Contiguous, without special values, a simpler value class, and a window nearer to the beginning of
the bitstream, which is zero. :mod:`consistency.diagnose.shrink.shapes` reduces the sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ...core.model import Case
from ...core.recipe import TensorRecipe
from ...errors import RecipeError
from ...generate.materialize import prepare
from .failure_predicate import Search
from .tensor_edits import tensors_of, with_tensors

_MAX_SINGLE_STEPS = 16  # positions in the bitstream, tried one by one


def simplify_recipes(search: Search) -> None:
    """Simplify every tensor's recipe as far as the case still fails."""
    search.report("recipes")
    search.accept(_contiguous(search.case))
    for i, tensor in enumerate(tensors_of(search.case)):
        if isinstance(tensor, TensorRecipe):
            _simplify_recipe(search, i)
            _reduce_window(search, i)


def _contiguous(case: Case, only: int | None = None) -> Case | None:
    """Every tensor (or one) contiguous; None for an invalid recipe."""
    try:
        shapes = [tuple(t.shape) for t in prepare(case).build().tensors]
    except RecipeError:
        return None
    tensors = tensors_of(case)
    for i, shape in enumerate(shapes):
        tensor = tensors[i]
        if isinstance(tensor, TensorRecipe) and only in (None, i):
            tensors[i] = replace(tensor, base=shape, view=())
    return with_tensors(case, tensors)


def _with_changes(case: Case, i: int, **changes: object) -> Case:
    tensors = tensors_of(case)
    tensors[i] = replace(tensors[i], **changes)  # type: ignore[arg-type]
    return with_tensors(case, tensors)


def _simplify_recipe(search: Search, i: int) -> None:
    search.accept(_contiguous(search.case, i))
    tensor = tensors_of(search.case)[i]
    assert isinstance(tensor, TensorRecipe)
    if tensor.special:
        search.accept(_with_changes(search.case, i, special=()))
    for values in _simpler_value_classes(tensor):
        if search.accept(_with_changes(search.case, i, values=values)):
            return


def _simpler_value_classes(tensor: TensorRecipe) -> Iterator[tuple[object, ...]]:
    """Simpler value classes, the simplest first."""
    match tensor.values:
        case ("integers", int(low), int(high)) if (low, high) != (0, 1):
            yield ("integers", 0, 1)
            if (low, high) != (-1, 1) and low < 0:
                yield ("integers", -1, 1)
        case ("uniform" | "integers", *_):
            return
        case _:
            yield ("uniform", -1.0, 1.0)


def _reduce_window(search: Search, i: int) -> None:
    """Move the window toward the beginning of the bitstream: to the start, by halves, by single
    positions."""
    tensor = tensors_of(search.case)[i]
    assert isinstance(tensor, TensorRecipe)
    size = math.prod(tensor.base)
    for stop in dict.fromkeys((0, 1, 2, 3, size, 2 * size)):
        if stop < tensor.stop and search.accept(_with_changes(search.case, i, stop=stop)):
            return
    while True:
        current = tensors_of(search.case)[i].stop  # type: ignore[union-attr]
        steps = [
            current // 2,
            *(current - back for back in (size, size // 2, *range(1, _MAX_SINGLE_STEPS))),
        ]
        if not any(
            0 <= stop < current and search.accept(_with_changes(search.case, i, stop=stop))
            for stop in dict.fromkeys(steps)
        ):
            return
