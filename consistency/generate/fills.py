"""The same call filled with other numbers of the same kind.

A runtime that compiles has one graph for such cases: where a graph takes a second and a call a
millisecond, hundreds of cases cost what two different ones cost. Shapes, layouts, other arguments,
special values and tensors given by their bits stay; the windows of the bitstream move on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..core.model import Case
from ..core.recipe import Literal, TensorRecipe
from .exhaustive import is_swept

STEP = 1 << 12  # positions of the bitstream: tensors of fewer numbers have none in common


def fills(case: Case, count: int) -> Iterator[Case]:
    """The case and, after it, ``count - 1`` others of its signature; it alone where no number can
    change: exhaustive and large cases, and those without tensors or with literal ones only.

    Tensors of the case's own dtype change, but no indices, masks and lengths of another one, on
    which shapes and validity of the call may hang.
    """
    yield case
    if case.tiling is None and any(_can_change(case, tensor) for tensor in case.tensors):
        for number in range(1, count):
            yield case.with_tensors(
                replace(tensor, stop=tensor.stop + number * STEP)
                if isinstance(tensor, TensorRecipe) and _can_change(case, tensor)
                else tensor
                for tensor in case.tensors
            )


def _can_change(case: Case, tensor: TensorRecipe | Literal) -> bool:
    return (
        isinstance(tensor, TensorRecipe)
        and tensor.dtype == case.dtype
        and not is_swept(case, tensor)
    )
