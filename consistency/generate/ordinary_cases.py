"""Cases of ordinary numbers: those that other conditions (a layout, a gradient, a second number)
are rather put to, since special and extreme numbers would decide the result in their place."""

from __future__ import annotations

from ..core.model import Case
from ..core.recipe import TensorRecipe

ORDINARY = frozenset({"uniform", "normal", "integers"})  # value classes


def is_ordinary(case: Case) -> bool:
    """Whether no tensor of the case was drawn for its special or extreme numbers. A mask has
    none."""
    return all(
        isinstance(t, TensorRecipe)
        and not t.special
        and (t.dtype == "bool" or t.values[0] in ORDINARY)
        for t in case.tensors
    )
