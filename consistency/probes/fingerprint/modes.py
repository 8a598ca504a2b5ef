"""Rounding modes, as predictions to compare with measured results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .gemm_probe import Array

Mode = Callable[[Array], Array]
# For numbers in units of the last kept bit.
MODES: dict[str, Mode] = {
    "nearest even": np.rint,
    "nearest away": lambda x: np.trunc(x + np.copysign(0.5, x)),
    "toward zero": np.trunc,
    "upward": np.ceil,
    "downward": np.floor,
}


def of_operand(seen: Array, given: Array, bits: int) -> str | None:
    """The mode that rounds ``given`` (1 ≤ |x| < 4) to ``seen`` at ``bits`` bits; None if no mode or
    several fit."""
    with np.errstate(over="ignore", invalid="ignore"):
        unit = np.ldexp(1.0, np.frexp(given)[1] - bits)
        fitting = [
            name for name, mode in MODES.items() if np.array_equal(mode(given / unit) * unit, seen)
        ]
    return fitting[0] if len(fitting) == 1 else None
