"""Simpler recipes, where tensors given by their bits do not fail: the judge knows of a recipe what
its numbers are.

Contiguous, without special values, a plainer value class, and a window nearer to the beginning of
the bitstream, where all is blank. Sizes are for :mod:`consistency.diagnose.shrink.shapes`, as those
of literal tensors.
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

_SINGLY = 16  # positions in the bitstream, up to which each one is tried


def simplify_recipes(search: Search) -> None:
    """Make every tensor's recipe as plain as the failure lets it be."""
    search.report("recipes")
    search.accept(_plain(search.case))
    for i, tensor in enumerate(tensors_of(search.case)):
        if isinstance(tensor, TensorRecipe):
            _one(search, i)
            _earlier(search, i)


def _plain(case: Case, only: int | None = None) -> Case | None:
    """Every tensor (or one) contiguous; None for a recipe that makes no sense."""
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


def _with(case: Case, i: int, **changes: object) -> Case:
    tensors = tensors_of(case)
    tensors[i] = replace(tensors[i], **changes)  # type: ignore[arg-type]
    return with_tensors(case, tensors)


def _one(search: Search, i: int) -> None:
    search.accept(_plain(search.case, i))
    tensor = tensors_of(search.case)[i]
    assert isinstance(tensor, TensorRecipe)
    if tensor.special:
        search.accept(_with(search.case, i, special=()))
    for values in _classes(tensor):
        if search.accept(_with(search.case, i, values=values)):
            return


def _classes(tensor: TensorRecipe) -> Iterator[tuple[object, ...]]:
    """Plainer value classes than the tensor's, the plainest first."""
    match tensor.values:
        case ("integers", int(low), int(high)) if (low, high) != (0, 1):
            yield ("integers", 0, 1)
            if (low, high) != (-1, 1) and low < 0:
                yield ("integers", -1, 1)
        case ("uniform" | "integers", *_):
            return
        case _:
            yield ("uniform", -1.0, 1.0)


def _earlier(search: Search, i: int) -> None:
    """The window further down the bitstream: to where it begins, by halves, then position by
    position."""
    tensor = tensors_of(search.case)[i]
    assert isinstance(tensor, TensorRecipe)
    size = math.prod(tensor.base)
    for stop in dict.fromkeys((0, 1, 2, 3, size, 2 * size)):
        if stop < tensor.stop and search.accept(_with(search.case, i, stop=stop)):
            return
    while True:
        now = tensors_of(search.case)[i].stop  # type: ignore[union-attr]
        steps = [now // 2, *(now - back for back in (size, size // 2, *range(1, _SINGLY)))]
        if not any(
            0 <= stop < now and search.accept(_with(search.case, i, stop=stop))
            for stop in dict.fromkeys(steps)
        ):
            return
