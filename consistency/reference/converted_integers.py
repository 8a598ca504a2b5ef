"""Single whole numbers beside tensors of a narrower integer dtype: torch converts them first.

A tensor without dimensions does not widen the common dtype of those that have some (torch's `type
promotion <https://docs.pytorch.org/docs/stable/tensor_attributes.html>`_): 256 beside int8 is
computed as 0, as the conversion to int8 makes of it, in every kernel. The reference takes the
converted number, so that nobody is told that the maximum of int8 and 256 is 256. Where whole
numbers give a float, both are converted to that, and 256 stays.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..generate.materialize import Materials
from ..operators.declare import Operator
from ..operators.definitions import UNORDERED

_FAMILIES = frozenset({"binary", "ternary", "comparison"})
_NAMES = frozenset({"where", "searchsorted"})
_OF_FLOATS = frozenset({
    "__rdiv__", "atan2", "copysign", "float_power", "ldexp", "special.xlog1py", "special.zeta",
    "true_divide", "xlogy",
})  # fmt: skip


def converted(operator: Operator, materials: Materials, dims: Sequence[int]) -> Materials:
    """The materials as the operator computes with them: the same where no number is converted.
    ``dims``: how many dimensions each tensor of the case has."""
    name, family = operator.ruled_by
    first = operator.leading + (name == "where")  # a mask is not converted
    if len(dims) < first + 2 or all(dims) or not (family in _FAMILIES or name in _NAMES):
        return materials
    plain = name.removeprefix("_foreach_").rstrip("_")
    floats = {name, plain} & _OF_FLOATS
    if floats or (plain == "div" and not materials.case.kwargs.get("rounding_mode")):
        return materials
    dtypes = [getattr(torch, tensor.dtype) for tensor in materials.case.tensors]
    wide = [dtype for dtype, count in zip(dtypes[first:], dims[first:], strict=True) if count]
    if not wide or any(dtype.is_floating_point or dtype.is_complex for dtype in wide):
        return materials
    if len({*wide} - {torch.bool}) > 1 and {*wide} & UNORDERED:
        return materials  # torch refuses the call
    common = functools.reduce(torch.promote_types, wide)
    if common == torch.bool:  # whole numbers outrank truth values
        return materials
    narrow = np.dtype(str(common).removeprefix("torch."))
    bases: list[Any] = list(materials.bases)
    for place in range(first, len(dims)):
        # By torch's dtype: NumPy holds the bits of bfloat16 as whole numbers.
        dtype = dtypes[place]
        if not (dims[place] or dtype.is_floating_point or dtype.is_complex or dtype == torch.bool):
            bases[place] = bases[place].astype(narrow).astype(bases[place].dtype)
    return replace(materials, bases=tuple(bases))
