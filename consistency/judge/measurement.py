"""Measurement of one floating-point output: from two tensors to a
:class:`~consistency.core.model.Measured`."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import torch

from ..core import dtypes
from ..core.model import ElementGroup, Measured
from ..core.views import written
from ..generate.exhaustive import is_exhaustive
from ..reference.rounding_variance import healthy_variance
from . import metrics
from .elements import Elements, flat

# Errors below these (ulp, G·u·S) satisfy every rule in use; only the two maxima are kept.
_SETTLED_ULP = 0.5
_SETTLED_SCALED = 1.0
_MOST_ZEROS = 0.65
_FEW_TERMS = 8  # up to which √n and n hardly differ
_LEANING, _ALL = 3.0, 0.9  # sign bias: suspicious (standard deviations), certain (share)
# × √u: relative range of operands below which healthy sums of products have a sign bias (observed
# up to 2 × √u)
_HALF_OF_THE_DIGITS = 4.0
# Groups are compared above this largest error (σ²), up to this number of elements.
_NOTABLE, _MOST_GROUPED = 9.0, 1 << 20


class Floating(Elements):
    """Measures one output. Special values, ranges and the Pareto front are computed only if
    needed."""

    cluster: tuple[float, int, str] | None = None

    def measured(self) -> Measured:
        n = self.expected.size
        if n == 0:
            vacuous = "empty output: only shape and dtype could be checked"
            return Measured(
                self.name, self.dtype, self.shape, 0, (ElementGroup(None),), vacuous=vacuous
            )
        sums = metrics.absolute_and_ulp(
            self.actual, self.expected, self.tail, self.form, self.known
        )
        # The largest number in place of an infinity has an error of at least half a step.
        largest_step = self.form.overflow * self.form.unit_roundoff
        if sums.bad or (sums.abs_max >= largest_step and self.held().any()):
            self.set_special_aside()
            sums = metrics.absolute_and_ulp(self.actual, self.expected, self.tail, self.form)
        if sums.nonzero < self.expected.size and self.signed_zeros_matter():
            self.check_zero_signs()
        exact = self.moves_only
        element_groups: tuple[ElementGroup, ...] = (
            ElementGroup(None, sums.ulp_max, abs_max=sums.abs_max),
        )
        elementwise_rounding = self.model.kind == "rounded" and not self.complex
        if sums.ulp_max > _SETTLED_ULP and (
            sums.ulp_max > 1.0 or not elementwise_rounding or self._subnormal()
        ):
            element_groups, exact = self._measure_groups(sums)
        pattern = ""
        if sums.ulp_max > 2.0 and element_groups[0].pareto_front:
            pattern = metrics.pattern_of(
                self.placed(metrics.errors(self.actual, self.expected, self.tail)), self.shape
            )
        return Measured(
            self.name, self.dtype, self.shape, n, element_groups, exact, sums.differing,
            math.sqrt(sums.squares / n), math.sqrt(sums.sigma_squares / n),
            math.sqrt(sums.sigma_max), self._independent(sums),
            *self._signs(sums), self.special, self.special_worst, self._vacuous_reason(sums, n),
            pattern, self.cluster, self._term_count(), self._step_statistics(),
        )  # fmt: skip

    def _signs(self, sums: metrics.Sums) -> tuple[int, int, int]:
        """How many errors are positive, negative, and away from zero; zeros if a sign bias proves
        nothing.

        For numbers 2ᵐ + a that agree in all but their last digits, products are 2²ᵐ + 2ᵐ(a + b) +
        ab; a running sum keeps the first two terms exactly, and what is rounded away has the sign
        of ab. Healthy sums then have up to 86% of their errors on one side; truncation has all of
        them.
        """
        counts = (sums.positive, sums.negative, sums.outward)
        signed = sums.positive + sums.negative
        leaning = max(*counts, signed - sums.outward)
        if (
            2 * leaning - signed > _LEANING * math.sqrt(signed)
            and leaning < _ALL * signed
            and self._operands_nearly_equal()
        ):
            return 0, 0, 0
        return counts

    def _operands_nearly_equal(self) -> bool:
        """Whether the numbers of every operand agree in nearly half of their digits."""
        numbers = [
            dtypes.real_of(base)
            for base in self.reference.materials.bases
            if base.dtype.kind in "fc" and base.size
        ]
        max_range = _HALF_OF_THE_DIGITS * math.sqrt(self.form.unit_roundoff)
        return all(float(np.ptp(x)) < max_range * float(np.abs(x).max()) for x in numbers)

    def _term_count(self) -> float:
        """n, for charts of errors; 0 if nothing is accumulated, or counting would need another
        run."""
        if self.model.kind != "accumulated":
            return 0.0
        return (
            self.reference.terms(self.index)
            if self.reference.direction == "forward"
            else self.reference.counted(self.index)
        )

    def _step_statistics(self) -> tuple[float, float] | None:
        statistics = self.reference.of_steps.get(self.index)
        return None if statistics is None else statistics[:2]

    def _subnormal(self) -> bool:
        """Whether numbers are so small that a backend may flush them, which requires the Pareto
        front."""
        return bool(
            (
                (np.abs(self.expected) < 4.0 * self.form.smallest_normal) & (self.expected != 0.0)
            ).any()
        )

    def _independent(self, sums: metrics.Sums) -> bool:
        """Whether rounding errors of different elements are independent, so that statistics are
        meaningful.

        Repeated numbers give equal errors. This is checked only if errors are unusual.
        """
        if sums.sigma_squares == 0.0 or not self._sums_products():
            return False
        n = self.expected.size
        if (
            sums.sigma_squares <= (2.25 if n < metrics.SIGNS_FROM else 1.0) * n
            and sums.sigma_max <= metrics.UNUSUAL_PEAK
        ):
            return True
        return not (self.reference.repeats or 2 * np.unique(self.expected).size <= n)

    def _sums_products(self) -> bool:
        kind = (
            self.model.magnitude if self.reference.direction == "forward" else self.model.backward
        )
        return kind == "products" and self.model.growth == "sqrt"

    def _unit_roundoff(self) -> float:
        """u of the accumulation: half-precision results are accumulated in float32 in forward,
        in their own format in backward."""
        wide = (
            self.form.precision < 24
            and self.model.wide_accumulation
            and self.reference.direction == "forward"
        )
        return 2.0**-24 if wide else self.form.unit_roundoff

    def _measure_groups(self, sums: metrics.Sums) -> tuple[tuple[ElementGroup, ...], bool]:
        """S, alternatives, ranges and Pareto fronts: for outputs with an error above correct
        rounding."""
        reference, u = self.reference, self._unit_roundoff()
        if reference.operator.alternatives is not None and reference.direction == "forward":
            self._admit_alternatives(sums)
        magnitude = self._magnitude()
        exact = self.moves_only or (self.model.integers_exact and reference.exact_integers)
        growth = reference.growth(self.index)
        if magnitude is not None:
            model = self._error_model(growth, u)
            metrics.scaled(
                self.actual,
                self.expected,
                self.tail,
                magnitude,
                model,
                sums,
                self._sizes if self.paired else None,
            )
            unusual = (
                sums.sigma_squares > 2.25 * self.expected.size
                or sums.sigma_max > metrics.UNUSUAL_PEAK
            )
            if isinstance(model, tuple) and unusual and self._sums_products():
                sums.sigma_squares = sums.sigma_max = 0.0
                if reference.heavy_tailed:
                    model = (model[0], model[1], max(model[1], model[2]))
                metrics.scaled(
                    self.actual,
                    self.expected,
                    self.tail,
                    self._with_steps_of_terms(magnitude, u, model[2]),
                    model,
                    sums,
                    self._sizes,
                )
            if (
                isinstance(model, tuple)
                and sums.sigma_max > _NOTABLE
                and metrics.SIGNS_FROM <= self.expected.size <= _MOST_GROUPED
            ):
                self.cluster = self._find_cluster(
                    self._with_steps_of_terms(magnitude, u, model[2]), model
                )
            is_doubtful = (
                sums.scaled_max > 0.5 * _SETTLED_SCALED
                or sums.sigma_squares > 4.0 * self.expected.size
            )
            if is_doubtful and reference.terms(self.index) > _FEW_TERMS and reference.low_entropy:
                sums.scaled_max *= growth / reference.terms(self.index)
                # Errors of equal numbers add up: their statistics are meaningless.
                sums.sigma_squares = sums.sigma_max = 0.0
                growth = reference.terms(self.index)
            if self.model.kind != "rounded" and not exact and sums.scaled_max <= _SETTLED_SCALED:
                return (ElementGroup(None, sums.ulp_max, sums.scaled_max, sums.abs_max),), False
            if isinstance(magnitude, np.ndarray):
                magnitude = np.nan_to_num(magnitude, nan=0.0, posinf=1e300)
        unit = growth * u
        if magnitude is not None:
            magnitude = self._with_step(magnitude, u)
        error = metrics.errors(self.actual, self.expected, self.tail)
        if reference.direction == "backward":
            # Intermediates of gradient formulas (squares, quotients) underflow, or overflow to a
            # zero, before the gradient does.
            error = np.maximum(error - self.form.smallest_normal, 0.0)
            error[
                (self.actual == 0.0) & (np.abs(self.expected) <= 1.0 / self.square_overflows())
            ] = 0.0
        ulp = self._ulp()
        scale = None if magnitude is None else magnitude * unit
        outside_ranges = self._element_group(None, error, ulp, scale, self._outside_ranges())
        return (
            outside_ranges,
            *(
                self._element_group(interval, error, ulp, scale, mask)
                for interval, mask in self._ranges()
            ),
        ), exact

    def _with_step(self, magnitude: Any, u: float) -> Any:
        """S, where it is not 0, and the smallest normal number, below which intermediates are
        rounded to a fixed step."""
        step = self._step(u)
        if isinstance(magnitude, np.ndarray):
            return np.where(magnitude == 0.0, 0.0, magnitude + step)
        return magnitude and magnitude + step

    def _with_steps_of_terms(self, magnitude: Any, u: float, q: float) -> Any:
        """The S of σ = √q·S when every term may be rounded to that step, as in a mean whose terms
        are divided before they are added."""
        terms = self.reference.terms(self.index)
        return np.hypot(magnitude, self._step(u) * u * math.sqrt(terms / (3.0 * q)))

    def _step(self, u: float) -> float:
        return max(self.form.smallest_normal, 2.0**-1074 / u)

    def _error_model(self, growth: float, u: float) -> float | tuple[float, float, float]:
        """G·u, with p and q of σ² for sums of products; cached for all backends."""
        key = (self.index, self.form.precision)
        model = self.reference.error_models.get(key)
        if model is None:
            model = growth * u
            if self._sums_products():
                terms, ordered = self.reference.terms(self.index), self.reference.ordered_signs
                model = (
                    model,
                    *healthy_variance(terms, u, self.form.unit_roundoff, ordered=ordered),
                )
            elif self.index in self.reference.of_steps:
                model = (model, u * u / 12.0, (u / self.reference.of_steps[self.index][2]) ** 2)
            self.reference.error_models[key] = model
        return model

    @functools.cached_property
    def _sizes(self) -> Any:
        """Moduli of complex numbers, whose parts are differences of sums of that size: ac and bd
        for (a + ib)·(c + id). Else None."""
        if not self.paired or self.keep is not None:
            return None
        return np.repeat(np.hypot(self.expected[::2], self.expected[1::2]), 2)

    def _ulp(self) -> Any:
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

    def _find_cluster(
        self, magnitude: Any, model: tuple[float, float, float]
    ) -> tuple[float, int, str] | None:
        """The cluster of errors of a few σ; None if elements were excluded, which leaves no rows
        and tiles."""
        # others share many roundings
        independent_roundings = self.form.precision >= 24 and self.reference.direction == "forward"
        if (
            not independent_roundings
            or self.keep is not None
            or math.prod(self.shape) != self.expected.size
        ):
            return None
        _, p, q = model
        q = max(p, q) if self.reference.heavy_tailed else q
        variance = np.maximum(
            p * (self.expected if self._sizes is None else self._sizes) ** 2
            + q * np.nan_to_num(magnitude, nan=0.0, posinf=1e150) ** 2,
            1e-300,
        )
        return metrics.clustered(
            metrics.errors(self.actual, self.expected, self.tail) ** 2 / variance, self.shape
        )

    def _magnitude(self) -> Any:
        """S as a flat array of the kept elements, or one number for all, or None. May contain
        NaN and infinities."""
        magnitudes = self.reference.magnitudes
        magnitude: Any = magnitudes[self.index] if self.index < len(magnitudes) else None
        if not isinstance(magnitude, torch.Tensor):
            return magnitude
        if magnitude.numel() != self.elements:  # both parts of a complex result share one S
            magnitude = torch.broadcast_to(
                magnitude.unsqueeze(-1)
                if self.paired and magnitude.shape != self.shape
                else magnitude,
                self.shape,
            )
        magnitude = flat(magnitude, wide=True)
        return magnitude[self.keep] if self.keep is not None else magnitude

    def _element_group(
        self, interval: tuple[int, float, float] | None, error: Any, ulp: Any, scale: Any, mask: Any
    ) -> ElementGroup:
        if mask is not None:
            error, ulp = error[mask], ulp[mask]
            scale = scale[mask] if isinstance(scale, np.ndarray) else scale
        if not error.size:
            return ElementGroup(interval)
        pareto_points, elements = metrics.pareto_front(error, ulp, scale)
        positions = np.flatnonzero(mask) if mask is not None else None
        worst = tuple(
            self.worst(int(positions[i]) if positions is not None else i) for i in elements
        )
        flushed = self._flushed_pareto_front(error, ulp, scale, mask) if pareto_points else None
        quotient = None if scale is None else float(np.max(error / np.maximum(scale, 1e-300)))
        return ElementGroup(
            interval,
            float(np.max(error / ulp)),
            quotient or 0.0,
            float(error.max()),
            pareto_points,
            worst,
            flushed,
        )

    def _flushed_pareto_front(
        self, error: Any, ulp: Any, scale: Any, mask: Any
    ) -> tuple[tuple[float, float], ...] | None:
        """The Pareto front for a backend that may flush subnormals; None if that makes no
        difference."""
        smallest_normal = self.form.smallest_normal
        outputs = self.reference.flushed()
        if outputs is None and not (np.abs(self.expected) < 4.0 * smallest_normal).any():
            return None
        admitted = error
        if outputs is not None and outputs[self.index].tensor is not None:
            flushed = flat(outputs[self.index].tensor, wide=True)  # type: ignore[arg-type]
            flushed = flushed[self.keep] if self.keep is not None else flushed
            flushed_error = np.abs(self.actual.astype(np.float64) - flushed)
            terms = self.reference.flushed_terms()
            if len(terms) == len(outputs) and terms[self.index].tensor is not None:
                some = flat(terms[self.index].tensor, wide=True)  # type: ignore[arg-type]
                some = np.nan_to_num(some[self.keep] if self.keep is not None else some)
                flushed_error = np.fmax(flushed_error - some, 0.0)
            flushed_error = flushed_error[mask] if mask is not None else flushed_error
            admitted = np.fmin(error, flushed_error)
        floor = smallest_normal + self._flushed_products(mask)
        return metrics.pareto_front(np.maximum(admitted - floor, 0.0), ulp, scale)[0]

    def _flushed_products(self, mask: Any) -> Any:
        """The most that a sum loses if every product below the smallest normal number becomes
        zero."""
        kind = (
            self.model.magnitude if self.reference.direction == "forward" else self.model.backward
        )
        if kind != "products":
            return 0.0
        most = self.reference.terms(self.index) * self.form.smallest_normal
        magnitude = np.nan_to_num(self._magnitude(), nan=0.0, posinf=1e300)
        whole = not isinstance(magnitude, np.ndarray) or magnitude.ndim == 0 or mask is None
        return np.minimum(magnitude if whole else magnitude[mask], most)

    def _ranges(self) -> list[tuple[tuple[int, float, float], Any]]:
        """The operator's declared argument ranges as masks over the elements (elementwise
        operators, same shape only)."""
        masks = []
        for interval in self.reference.operator.ranges:
            position, low, high = interval
            values = self._argument(position + self.reference.operator.leading)
            if values is not None:
                masks.append((interval, (values >= low) & (values <= high)))
        return masks

    def _outside_ranges(self) -> Any:
        masks = [mask for _, mask in self._ranges()]
        return ~np.logical_or.reduce(masks) if masks else None

    def _argument(self, position: int) -> Any:
        tensors = self.reference.arguments.tensors
        argument = (
            tensors[position]
            if position < len(tensors) and not tensors[position].is_complex()
            else None
        )
        if argument is not None and self.name.startswith("arg/"):
            argument = self._values_at_destination(argument, int(self.name.removeprefix("arg/")))
        if argument is None or tuple(argument.shape) != self.shape:
            return None
        values = flat(argument, wide=True)
        return values[self.keep] if self.keep is not None else values

    def _values_at_destination(
        self, argument: torch.Tensor, destination: int
    ) -> torch.Tensor | None:
        """An argument's numbers at the positions of the mutated view in its storage, NaN
        elsewhere."""
        view, base = (
            self.reference.arguments.tensors[destination],
            self.reference.arguments.bases[destination],
        )
        if view.shape != argument.shape:
            return argument
        return written(torch.full_like(base, torch.nan, dtype=torch.float64), view, argument)

    def _admit_alternatives(self, sums: metrics.Sums) -> None:
        """Discontinuous operators: measure against the nearest admissible result."""
        hook, reference = self.reference.operator.alternatives, self.reference
        assert hook is not None
        raw = tuple(o.tensor for o in reference.outcome.outputs if o.tensor is not None)
        nearest = metrics.errors(self.actual, self.expected, self.tail)
        for outputs in hook(tuple(reference.arguments.args), reference.arguments.kwargs, raw):
            alternative = flat(
                torch.as_tensor(outputs[self.index]).broadcast_to(self.shape), wide=True
            )
            alternative = alternative[self.keep] if self.keep is not None else alternative
            closer = np.abs(self.actual - alternative) < nearest
            if closer.any():
                self.expected = np.where(closer, alternative, self.expected)
                nearest = metrics.errors(self.actual, self.expected, self.tail)
        updated = metrics.absolute_and_ulp(self.actual, self.expected, self.tail, self.form)
        for name in (
            "ulp_max",
            "abs_max",
            "squares",
            "differing",
            "positive",
            "negative",
            "outward",
            "error",
        ):
            setattr(sums, name, getattr(updated, name))

    def _vacuous_reason(self, sums: metrics.Sums, n: int) -> str:
        """Why agreement would prove nothing: all NaN, mostly zeros, constant. Of consecutive bit
        patterns each is a number that is tried, whatever comes of its neighbors."""
        if is_exhaustive(self.reference.materials.case):
            return ""
        if not self.expected.size:
            return (
                "every number lies beyond the format"
                if "largest" in self.special
                else "no element is finite in both"
            )
        if self.moves_only or "constant" in self.reference.operator.traits or n == 1:
            return ""
        # Elements of an elementwise operator are independent tests: one nonzero element suffices.
        # So are those of the gradient of data movement, which is zero where nothing was read.
        independent_elements = (
            "elementwise" in self.reference.operator.traits or self.model.kind == "exact"
        )
        if sums.nonzero < (1.0 - _MOST_ZEROS) * n and (
            sums.nonzero == 0 or not independent_elements
        ):
            return f"{n - sums.nonzero} of {n} elements are zero or not finite"
        if (
            n > 2
            and self.expected[0] == self.expected[-1]
            and self.expected.min() == self.expected.max()
        ):
            return "all elements are equal"
        return ""
