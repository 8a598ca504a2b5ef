"""Destinations of fractions, or of longer integers, to which whole numbers are written."""

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


def wrap_before(operator: Operator, materials: Materials) -> bool:
    """Whether a destination of integers gets numbers that have wrapped in the shorter dtype of
    the operands, in which an elementwise kernel computes."""
    original, tensors = operator.form_of, materials.case.tensors
    if original is None or not operator.leading or "elementwise" not in original.traits:
        return False
    names = {t.dtype for t in tensors[operator.leading :]}
    if tensors[0].dtype in names or any(map(holds_fractions, (tensors[0].dtype, *names))):
        return False
    try:
        found, longer = (
            original(*made.args[operator.leading :], **made.kwargs)
            for made in (materials.build(), materials.build("float64"))
        )
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
        return False
    return isinstance(found, torch.Tensor) and not torch.equal(found.long(), longer.long())


__all__ = ["are_computed_otherwise", "wrap_before"]
