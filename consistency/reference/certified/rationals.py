"""Tensors of rational numbers, evaluated in the requested precision."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, fmpq

from .balls import Element, Elements
from .nodes import Node, Positions


class Fractions(Node):
    """Constant rational numbers, in row-major order."""

    def __init__(self, values: Sequence[Fraction | int], shape: Sequence[int]) -> None:
        super().__init__(shape)
        self.values = np.empty(len(values), dtype=object)
        self.values[:] = values
        assert self.values.size == self.size

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        return [of_fraction(value) for value in self.values[positions].tolist()]


def of_fraction(value: Fraction | int) -> Element:
    """A rational number as a ball, which is exact if the denominator is a power of two."""
    if not value:
        return 0.0
    return arb(fmpq(value.numerator, value.denominator))
