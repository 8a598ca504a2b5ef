"""Derivatives at the ends of a function's domain that are infinite, and right as such.

A gradient that is not finite mostly depends on the order of what is multiplied and summed, and
proves nothing. Where the derivative of a function of one number has an infinite limit from inside
of its domain, the gradient is this limit times what arrives, in whatever order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from ...operators.declare import Operator

# Of each function, the sign of its infinite derivative at the numbers where it has one: one-sided
# limits, or the same from both sides (NIST Digital Library of Mathematical Functions, 4.2, 4.23,
# 4.37, 7.17). A zero stands for +0: the limit from its side.
_POLES: dict[str, dict[float, float]] = {
    "sqrt": {0.0: 1.0},
    "rsqrt": {0.0: -1.0},
    "reciprocal": {0.0: -1.0},
    "log": {0.0: 1.0},
    "log2": {0.0: 1.0},
    "log10": {0.0: 1.0},
    "log1p": {-1.0: 1.0},
    "asin": {-1.0: 1.0, 1.0: 1.0},
    "arcsin": {-1.0: 1.0, 1.0: 1.0},
    "acos": {-1.0: -1.0, 1.0: -1.0},
    "arccos": {-1.0: -1.0, 1.0: -1.0},
    "acosh": {1.0: 1.0},
    "arccosh": {1.0: 1.0},
    "atanh": {-1.0: 1.0, 1.0: 1.0},
    "arctanh": {-1.0: 1.0, 1.0: 1.0},
    "erfinv": {-1.0: 1.0, 1.0: 1.0},
    "special.erfinv": {-1.0: 1.0, 1.0: 1.0},
    "special.ndtri": {0.0: 1.0, 1.0: 1.0},
}


def limits(
    operator: Operator, x: torch.Tensor, arriving: torch.Tensor
) -> npt.NDArray[np.float64] | None:
    """The gradients by ``x`` that are infinite limits, flat; NaN elsewhere. None for operators
    without any. ``arriving``: the gradient by the result, of the shape of ``x``."""
    poles = _POLES.get(operator.name.removesuffix(".method").removesuffix("_"))
    if poles is None or x.shape != arriving.shape or x.is_complex():
        return None
    at, by = (t.detach().double().flatten().numpy() for t in (x, arriving))
    sign = np.full(at.shape, np.nan)
    for place, positive in poles.items():
        sign[(at == place) & ((at != 0.0) | ~np.signbit(at))] = positive
    sign[~np.isfinite(by) | (by == 0.0)] = np.nan
    found: npt.NDArray[np.float64] = np.copysign(np.inf, by) * sign
    return found
