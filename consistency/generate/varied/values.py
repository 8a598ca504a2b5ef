"""One tensor of a case with other numbers: of one sign, equal, far apart, a row of NaN."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...core import dtypes
from ...core.model import Case
from ...core.recipe import TensorRecipe
from ..variations import _with_tensor

# Numbers that others may stand for: they have no structure, and reach around 0.
PLAIN = frozenset({"uniform", "normal", "integers", "sparse", "cancelling", "wide"})
NEGATIVE, POSITIVE = ("uniform", -2.0, -1.0), ("uniform", 1.0, 2.0)
FAR_APART = ("normal", 0.0, 128.0)
LONGEST_ROW = 512
MOST_TENSORS = 3


def of(case: Case) -> Iterator[Case]:
    """Each tensor of floating-point numbers in turn with the others' numbers as they are."""
    for number, tensor in enumerate(case.tensors[:MOST_TENSORS]):
        if not isinstance(tensor, TensorRecipe) or tensor.values[0] not in PLAIN:
            continue
        if dtypes.form_of(tensor.dtype) is None or tensor.dtype in dtypes.PARTS:
            continue
        plain = replace(tensor, special=())
        for values in _classes(tensor):
            yield _with_tensor(case, number, replace(plain, values=values))
        yield from (_with_tensor(case, number, other) for other in _with_nan(plain))


def _classes(tensor: TensorRecipe) -> Iterator[tuple[Any, ...]]:
    low = tensor.values[1] if tensor.values[0] == "uniform" else -math.inf
    yield POSITIVE
    if low < 0.0:
        yield from (NEGATIVE, FAR_APART)


def _with_nan(tensor: TensorRecipe) -> Iterator[TensorRecipe]:
    """NaN in the whole first row; at the beginning, in the middle, at the end."""
    count = math.prod(tensor.base)
    row = tensor.base[-1] if tensor.base else 1
    if not count:
        return
    if len(tensor.base) > 1 and row <= LONGEST_ROW:
        yield replace(tensor, special=tuple((n, "nan") for n in range(row)))
    for position in sorted({0, count // 2, count - 1}):
        yield replace(tensor, special=((position, "nan"),))
