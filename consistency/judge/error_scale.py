"""The sizes that errors of an output are measured in: its ulp, and G·u·S, with the variance of
healthy sums."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import torch

from ..core import dtypes
from ..reference.rounding_variance import healthy_variance
from .elements import Elements, flat

_BEYOND_STEPS = 2.0**27  # × a term: its square does not change the sum of both squares in float64


class ScaledElements(Elements):
    """Elements with the scale of their errors."""

    def sums_products(self) -> bool:
        kind = (
            self.model.magnitude if self.reference.direction == "forward" else self.model.backward
        )
        return kind == "products" and self.model.growth == "sqrt"

    def unit_roundoff(self) -> float:
        """u of the accumulation: half-precision results are accumulated in float32 in forward,
        in their own format in backward and where steps have fewer digits than the result."""
        own = dtypes.form_of(self.dtype) or self.form
        wide = (
            self.form.precision == own.precision < 24
            and self.model.wide_accumulation
            and self.reference.direction == "forward"
        )
        return 2.0**-24 if wide else self.form.unit_roundoff

    def magnitude(self) -> Any:
        """S as a flat array of the kept elements, or one number for all, or None. May contain
        NaN and infinities."""
        magnitudes = self.reference.magnitudes
        magnitude: Any = magnitudes[self.index] if self.index < len(magnitudes) else None
        if not isinstance(magnitude, torch.Tensor):
            return magnitude
        if magnitude.is_complex():  # of a formula in which one operand is
            magnitude = magnitude.abs()
        if magnitude.numel() != self.elements:  # both parts of a complex result share one S
            magnitude = torch.broadcast_to(
                magnitude.unsqueeze(-1)
                if self.paired and magnitude.shape != self.shape
                else magnitude,
                self.shape,
            )
        magnitude = flat(magnitude, wide=True)
        return magnitude[self.keep] if self.keep is not None else magnitude

    def ulp(self) -> Any:
        """ulp of the reference, or of the result if that lies across the next power of two and was
        rounded to its ulp.

        Not beyond the largest number, where there is only infinity.
        """
        ulp = dtypes.spacing(self.expected, self.form, np.empty_like(self.expected))
        actual_ulp = dtypes.spacing(
            self.actual.astype(np.float64), self.form, np.empty_like(self.expected)
        )
        return np.where(
            (actual_ulp == 2.0 * ulp) & (np.abs(self.actual) < self.form.overflow), actual_ulp, ulp
        )

    @functools.cached_property
    def sizes(self) -> Any:
        """Moduli of complex numbers, whose parts are differences of sums of that size: ac and bd
        for (a + ib)·(c + id). Else None."""
        if not self.paired or self.keep is not None:
            return None
        return np.repeat(np.hypot(self.expected[::2], self.expected[1::2]), 2)

    def error_model(self, growth: float, u: float) -> float | tuple[float, float, float]:
        """G·u, with p and q of σ² for sums of products; cached for all backends."""
        key = (self.index, self.form.precision)
        model = self.reference.error_models.get(key)
        if model is None:
            model = growth * u
            if self.sums_products():
                terms, ordered = self.reference.terms(self.index), self.reference.ordered_signs
                model = (
                    model,
                    *healthy_variance(terms, u, self.form.unit_roundoff, ordered=ordered),
                )
            elif self.index in self.reference.of_steps:
                model = (model, u * u / 12.0, (u / self.reference.of_steps[self.index][2]) ** 2)
            self.reference.error_models[key] = model
        return model

    def with_step(self, magnitude: Any, u: float) -> Any:
        """S, where it is not 0, and the smallest normal number, below which intermediates are
        rounded to a fixed step."""
        step = self._step(u)
        if isinstance(magnitude, np.ndarray):
            return np.where(magnitude == 0.0, 0.0, magnitude + step)
        return magnitude and magnitude + step

    def with_steps_of_terms(self, magnitude: Any, u: float, q: float) -> Any:
        """The S of σ = √q·S when every term may be rounded to that step, as in a mean whose terms
        are divided before they are added; and the result to the step of its own format, which is
        wider where float16 is accumulated in float32."""
        terms = self.reference.terms(self.index)
        of_result = self.form.smallest_normal * self.form.unit_roundoff
        variance = terms * (self._step(u) * u) ** 2 + of_result**2
        steps = math.sqrt(variance / (3.0 * q))
        if float(np.min(magnitude)) > _BEYOND_STEPS * steps:
            return magnitude  # hypot would return it, in ten times as long
        return np.hypot(magnitude, steps)

    def _step(self, u: float) -> float:
        return max(self.form.smallest_normal, 2.0**-1074 / u)
