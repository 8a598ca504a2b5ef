"""One tensor of a case in a further layout, and all of them in the same one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from ...core.model import Case
from ...core.recipe import TensorRecipe
from ...operators.declare import Operator
from ..memory_safety import ends_the_process
from ..variations import SHAPELESS

MOST_TENSORS = 5
MORE = 3  # columns, channels or elements that lie beside those that are used
Change = Callable[[TensorRecipe], TensorRecipe | None]


def of(operator: Operator, case: Case, *, overlap: bool) -> Iterator[Case]:
    """Every tensor in turn in every further layout, then all tensors together."""
    for changed in _further(case, overlap):
        if not ends_the_process(operator, changed):
            yield changed


def _further(case: Case, overlap: bool) -> Iterator[Case]:
    for change in (*WITHOUT_OVERLAP, *(OVERLAPPING if overlap else ())):
        found = [_changed(tensor, change) for tensor in case.tensors]
        for number, other in enumerate(found[:MOST_TENSORS]):
            if other is not None:
                yield case.with_tensors(
                    other if n == number else t for n, t in enumerate(case.tensors)
                )
        if sum(other is not None for other in found) > 1:
            yield case.with_tensors(
                t if other is None else other for t, other in zip(case.tensors, found, strict=True)
            )


def _changed(tensor: object, change: Change) -> TensorRecipe | None:
    if not isinstance(tensor, TensorRecipe) or tensor.view or tensor.values[0] not in SHAPELESS:
        return None
    other = change(tensor)
    return None if other is None else replace(other, special=())


def shifted(tensor: TensorRecipe) -> TensorRecipe | None:
    """All elements begin at the second one of the storage: no address is a multiple of two."""
    count = math.prod(tensor.base)
    steps = (("slice", 0, 1, 1 + count, None), ("view", *tensor.base))
    return replace(tensor, base=(1 + count,), view=steps) if count else None


def inner_column(tensor: TensorRecipe) -> TensorRecipe | None:
    """One column of a matrix, whatever the rank: no two elements are neighbors."""
    rank = len(tensor.base)
    return replace(tensor, base=(*tensor.base, MORE), view=(("select", rank, 1),))


def among_columns(tensor: TensorRecipe) -> TensorRecipe | None:
    """Neighboring columns of wider rows."""
    if not tensor.base:
        return None
    *rows, columns = tensor.base
    step = ("slice", len(rows), 1, 1 + columns, None)
    return replace(tensor, base=(*rows, columns + MORE), view=(step,))


def reversed_dimensions(tensor: TensorRecipe) -> TensorRecipe | None:
    """The first dimension innermost, the last one outermost."""
    order = tuple(range(len(tensor.base)))[::-1]
    if len(order) < 3:
        return None
    return replace(tensor, base=tensor.base[::-1], view=(("permute", *order),))


def outer_transposed(tensor: TensorRecipe) -> TensorRecipe | None:
    """The first two of several dimensions change places."""
    if len(tensor.base) < 3:
        return None
    first, second, *others = tensor.base
    return replace(tensor, base=(second, first, *others), view=(("transpose", 0, 1),))


def heads_behind_rows(tensor: TensorRecipe) -> TensorRecipe | None:
    """The second and third of four dimensions change places, as where attention's heads are cut
    from the columns of its rows."""
    if len(tensor.base) != 4:
        return None
    batch, heads, rows, size = tensor.base
    return replace(tensor, base=(batch, rows, heads, size), view=(("transpose", 1, 2),))


def channels_innermost(tensor: TensorRecipe) -> TensorRecipe | None:
    """The channels lie innermost, as in ``torch.channels_last``."""
    rank = len(tensor.base)
    if rank < 3:
        return None
    batch, channels, *sizes = tensor.base
    order = (0, rank - 1, *range(1, rank - 1))
    return replace(tensor, base=(batch, *sizes, channels), view=(("permute", *order),))


def channels_of_more(tensor: TensorRecipe) -> TensorRecipe | None:
    """Some of the channels of a tensor whose channels lie innermost."""
    rank = len(tensor.base)
    if rank < 3:
        return None
    batch, channels, *sizes = tensor.base
    order = (0, rank - 1, *range(1, rank - 1))
    steps = (("permute", *order), ("slice", 1, 0, channels, None))
    return replace(tensor, base=(batch, *sizes, channels + MORE), view=steps)


def first_expanded(tensor: TensorRecipe) -> TensorRecipe | None:
    """All along the first dimension are the same."""
    if not tensor.base or tensor.base[0] < 2:
        return None
    return replace(tensor, base=(1, *tensor.base[1:]), view=(("expand", *tensor.base),))


def last_expanded(tensor: TensorRecipe) -> TensorRecipe | None:
    """All along the last dimension are the same."""
    if not tensor.base or tensor.base[-1] < 2:
        return None
    return replace(tensor, base=(*tensor.base[:-1], 1), view=(("expand", *tensor.base),))


def inner_expanded(tensor: TensorRecipe) -> TensorRecipe | None:
    """All along the second dimension are the same, as heads that share their keys are."""
    if len(tensor.base) < 3 or tensor.base[1] < 2:
        return None
    base = (tensor.base[0], 1, *tensor.base[2:])
    return replace(tensor, base=base, view=(("expand", *tensor.base),))


WITHOUT_OVERLAP: tuple[Change, ...] = (
    shifted, inner_column, among_columns, outer_transposed, heads_behind_rows,
    reversed_dimensions, channels_innermost, channels_of_more,
)  # fmt: skip
OVERLAPPING: tuple[Change, ...] = (first_expanded, last_expanded, inner_expanded)
