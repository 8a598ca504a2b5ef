"""The format that a reference is computed in: float64, or the case's own where bits decide."""

from __future__ import annotations

from ..core.dtypes import INTEGER_RANGE
from ..core.recipe import DType
from ..generate.materialize import Materials
from ..operators.declare import Operator
from .written_integers import wrap_before

# Given a dtype, they take the same bytes for other numbers.
_REINTERPRETING = frozenset({"view", "view_copy"})


def computed_dtype(operator: Operator, materials: Materials) -> str | None:
    """``"float64"``, or None for the case's own dtypes: of an operator that is declared so, be it
    of integers alone, of bytes that are read as numbers of another dtype, and of integers that wrap
    before they are written as longer ones."""
    if reinterprets(operator, materials) or wrap_before(operator, materials):
        return None
    if "own-integers" in operator.traits and materials.case.dtype in INTEGER_RANGE:
        return None
    return operator.reference_dtype


def reinterprets(operator: Operator, materials: Materials) -> bool:
    """Whether the call names the dtype that the same bytes are read in."""
    if (operator.form_of or operator).name not in _REINTERPRETING:
        return False
    case = materials.case
    return any(isinstance(argument, DType) for argument in (*case.args, *case.kwargs.values()))


__all__ = ["computed_dtype", "reinterprets"]
