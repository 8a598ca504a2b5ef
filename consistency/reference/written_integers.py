"""Destinations of fractions to which whole numbers are written."""

from __future__ import annotations

import torch

from ..core.dtypes import floats as holds_fractions
from ..generate.materialize import Materials
from ..operators.declare import Operator
from .magnitudes import floats


def are_computed_otherwise(operator: Operator, materials: Materials) -> bool:
    """Whether a destination of fractions gets other numbers than fractions would give: one
    elementwise kernel converts its result and not its operands, so that numbers wrap, and no zero
    is negative."""
    original, tensors = operator.form_of, materials.case.tensors
    if original is None or not operator.leading or "elementwise" not in original.traits:
        return False
    operands = tensors[operator.leading :]
    if not holds_fractions(tensors[0].dtype) or any(holds_fractions(t.dtype) for t in operands):
        return False
    whole, fractions = (
        materials.build(
            "float64", integers_too=tuple({t.dtype for t in operands}) if too else False
        )
        for too in (False, True)
    )
    try:
        found, other = (
            original(*made.args[operator.leading :], **made.kwargs) for made in (whole, fractions)
        )
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
        return False
    if not isinstance(found, torch.Tensor) or floats(found) or not floats(other):
        return False
    return not torch.equal(found.double(), other) or bool((other.signbit() & (other == 0)).any())


__all__ = ["are_computed_otherwise"]
