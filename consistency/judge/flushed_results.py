"""The errors of an output beside what a backend gives that takes subnormal numbers for zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from .elements import flat
from .error_scale import ScaledElements
from .pareto import pareto_front


def flushed_pareto_front(
    elements: ScaledElements, error: Any, ulp: Any, scale: Any, mask: Any
) -> tuple[tuple[float, float], ...] | None:
    """The Pareto front for a backend that may flush subnormals; None if that makes no
    difference."""
    smallest_normal = elements.form.smallest_normal
    outputs = elements.reference.flushed()
    if outputs is None and not (np.abs(elements.expected) < 4.0 * smallest_normal).any():
        return None
    admitted = error
    if outputs is not None and outputs[elements.index].tensor is not None:
        flushed = flat(outputs[elements.index].tensor, wide=True)  # type: ignore[arg-type]
        flushed = flushed[elements.keep] if elements.keep is not None else flushed
        # An infinity counts as the power of two that overflows, as among the results.
        limit = elements.form.overflow
        flushed = np.clip(flushed, -limit, limit)
        flushed_error = np.abs(elements.actual.astype(np.float64) - flushed)
        terms = elements.reference.flushed_terms()
        if len(terms) == len(outputs) and terms[elements.index].tensor is not None:
            some = flat(terms[elements.index].tensor, wide=True)  # type: ignore[arg-type]
            if 2 * some.size == elements.elements:  # both parts of a complex number share them
                some = np.repeat(some, 2)
            some = np.nan_to_num(some[elements.keep] if elements.keep is not None else some)
            flushed_error = np.fmax(flushed_error - some, 0.0)
        flushed_error = flushed_error[mask] if mask is not None else flushed_error
        admitted = np.fmin(error, flushed_error)
    floor = smallest_normal + _flushed_products(elements, mask)
    return pareto_front(np.maximum(admitted - floor, 0.0), ulp, scale)[0]


def _flushed_products(elements: ScaledElements, mask: Any) -> Any:
    """The most that a sum loses if every product below the smallest normal number becomes
    zero."""
    kind = (
        elements.model.magnitude
        if elements.reference.direction == "forward"
        else elements.model.backward
    )
    if kind != "products":
        return 0.0
    most = elements.reference.terms(elements.index) * elements.form.smallest_normal
    magnitude = np.nan_to_num(elements.magnitude(), nan=0.0, posinf=1e300)
    whole = not isinstance(magnitude, np.ndarray) or magnitude.ndim == 0 or mask is None
    return np.minimum(magnitude if whole else magnitude[mask], most)
