"""Errors of running sums, step by step.

The error of an element of a running sum is that of the element before it and one rounding more, and
so is what a fault of the inputs adds to it. Of two such walks each may seem to follow the other by
chance alone; their steps are independent, as the errors of sums are.
"""

from __future__ import annotations

import math

import numpy as np

from ...operators.common_form import common_form
from ...operators.nonunique_results import argument
from .context import AttributionContext
from .simulation import Doubles, Predicted, flat

_SCANS = frozenset({"cumsum", "cumsum_", "masked.cumsum"})


def scanned_dim(context: AttributionContext) -> int | None:
    """The dimension along which the flagged output is a running sum, going back that of its
    cotangents; None for other operators."""
    operator, arguments = context.operator, context.reference.arguments
    if operator.ruled_by[0] not in _SCANS or context.raw is None or not context.raw.ndim:
        return None
    args, kwargs = common_form(operator, arguments.args, arguments.kwargs)
    dim = argument("dim", 1, None, args, kwargs)
    return int(dim) % context.raw.ndim if isinstance(dim, int) else None


def share_of_steps(
    context: AttributionContext, predicted: Predicted, dim: int
) -> tuple[float, float]:
    """As :meth:`AttributionContext.share` and :meth:`AttributionContext.correlation`, of the steps
    from one element to the next along ``dim``."""
    tensor = predicted[context.index].tensor if context.index < len(predicted) else None
    if tensor is None or (prediction := flat(tensor)).size != context.expected.size:
        return 0.0, 0.0
    with np.errstate(all="ignore"):
        error, moved = (
            _steps(values - context.expected, context, dim) / context.unit
            for values in (context.actual, prediction)
        )
    compared = context.failing & np.isfinite(error) & np.isfinite(moved)
    error, moved = error[compared], moved[compared]
    size = float(np.linalg.norm(error))
    if not size > 0.0:
        return 0.0, 0.0
    share = 1.0 - float(np.linalg.norm(error - moved)) / size
    products = (error - error.mean()) * (moved - moved.mean())
    spread = float(np.linalg.norm(products))
    return share, float(products.sum()) / spread if spread > 0.0 and math.isfinite(spread) else 0.0


def _steps(errors: Doubles, context: AttributionContext, dim: int) -> Doubles:
    """Going back, the sums run from the last element to the first."""
    walks = errors.reshape(context.shape)
    if context.backward:
        return -np.diff(walks, axis=dim, append=0.0).reshape(-1)
    return np.diff(walks, axis=dim, prepend=0.0).reshape(-1)
