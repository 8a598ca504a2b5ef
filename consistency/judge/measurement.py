"""One floating-point output: from two tensors to the numbers of a
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
from ..reference.rounding_variance import healthy_variance
from . import metrics
from .elements import Elements, flat

# Below this many ulp (and this share of G·u·S) no rule in use could object, and the two maxima
# alone are kept.
_SETTLED_ULP = 0.5
_SETTLED_SCALED = 1.0
_MOST_ZEROS = 0.65
_FEW_TERMS = 8  # with so few, √n and n are much the same
_LEANING, _ALL = (
    3.0,
    0.9,
    # standard deviations from which on signs are looked at more closely, and the share that proves
    # a fault
)
# × √u, the relative range of numbers below which sums of their products lean (seen up to 2 × √u)
_HALF_OF_THE_DIGITS = 4.0
_NOTABLE, _MOST_GROUPED = (
    9.0,
    1 << 20,
)  # σ² of the largest error, and elements, between which groups are compared


class Floating(Elements):
    """Measures one output. Quick path first; special values, ranges and the hull only where they
    are needed."""

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
        # The largest number in place of an infinity is off by half a step at least.
        far = self.form.overflow * self.form.unit_roundoff
        if sums.bad or (sums.abs_max >= far and self.held().any()):
            self.set_special_aside()
            sums = metrics.absolute_and_ulp(self.actual, self.expected, self.tail, self.form)
        if sums.nonzero < self.expected.size and self.signed_zeros_matter():
            self.check_zero_signs()
        exact = self.moves_only
        element_groups: tuple[ElementGroup, ...] = (
            ElementGroup(None, sums.ulp_max, abs_max=sums.abs_max),
        )
        simple = self.model.kind == "rounded" and not self.complex
        if sums.ulp_max > _SETTLED_ULP and (sums.ulp_max > 1.0 or not simple or self._subnormal()):
            element_groups, exact = self._closer(sums)
        pattern = ""
        if sums.ulp_max > 2.0 and element_groups[0].pareto_front:
            pattern = metrics.pattern_of(
                self.placed(metrics.errors(self.actual, self.expected, self.tail)), self.shape
            )
        return Measured(
            self.name, self.dtype, self.shape, n, element_groups, exact, sums.differing,
            math.sqrt(sums.squares / n), math.sqrt(sums.sigma_squares / n),
            math.sqrt(sums.sigma_max), self._independent(sums),
            *self._signs(sums), self.special, self.special_worst, self._vacuous(sums, n), pattern,
            self.cluster, self._terms(),
            self._of_steps(),
        )  # fmt: skip

    def _signs(self, sums: metrics.Sums) -> tuple[int, int, int]:
        """How many errors are positive, negative, and away from zero; none are counted where that
        proves nothing.

        Of numbers 2ᵐ + a, all alike but for their last digits, products are 2²ᵐ + 2ᵐ(a + b) + ab,
        of which a running sum keeps the first two terms whole: what is rounded away has the one
        sign of ab, also in healthy sums, of which up to 86% then err to one side. Truncation makes
        all of them.
        """
        counts = (sums.positive, sums.negative, sums.outward)
        signed = sums.positive + sums.negative
        leaning = max(*counts, signed - sums.outward)
        if (
            2 * leaning - signed > _LEANING * math.sqrt(signed)
            and leaning < _ALL * signed
            and self._alike()
        ):
            return 0, 0, 0
        return counts

    def _alike(self) -> bool:
        """Whether the numbers of every operand agree in nearly half of their digits."""
        numbers = [
            dtypes.real_of(base)
            for base in self.reference.materials.bases
            if base.dtype.kind in "fc" and base.size
        ]
        least = _HALF_OF_THE_DIGITS * math.sqrt(self.form.unit_roundoff)
        return all(float(np.ptp(x)) < least * float(np.abs(x).max()) for x in numbers)

    def _terms(self) -> float:
        """n, for a picture of errors against it; 0 where nothing is accumulated, or counting would
        cost another run."""
        if self.model.kind != "accumulated":
            return 0.0
        return (
            self.reference.terms(self.index)
            if self.reference.direction == "forward"
            else self.reference.counted(self.index)
        )

    def _of_steps(self) -> tuple[float, float] | None:
        found = self.reference.of_steps.get(self.index)
        return None if found is None else found[:2]

    def _subnormal(self) -> bool:
        """Whether numbers are so small that a backend may flush them, which the judge can only tell
        from the hull."""
        return bool(
            (
                (np.abs(self.expected) < 4.0 * self.form.smallest_normal) & (self.expected != 0.0)
            ).any()
        )

    def _independent(self, sums: metrics.Sums) -> bool:
        """Whether rounding errors of different elements are independent, so that their signs and
        mean square mean something.

        Where numbers repeat, results err alike. That is looked at only if errors are unusual.
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
        """u of the accumulation: half-precision results are accumulated in float32 going forward,
        in themselves going back."""
        wide = (
            self.form.precision < 24
            and self.model.wide_accumulation
            and self.reference.direction == "forward"
        )
        return 2.0**-24 if wide else self.form.unit_roundoff

    def _closer(self, sums: metrics.Sums) -> tuple[tuple[ElementGroup, ...], bool]:
        """S, the alternatives, the ranges and the hull: for outputs with an error above correct
        rounding."""
        reference, u = self.reference, self._unit_roundoff()
        if reference.operator.alternatives is not None and reference.direction == "forward":
            self._admit_alternatives(sums)
        s = self._magnitude()
        exact = self.moves_only or (self.model.integers_exact and reference.exact_integers)
        growth = reference.growth(self.index)
        if s is not None:
            model = self._error_model(growth, u)
            metrics.scaled(
                self.actual,
                self.expected,
                self.tail,
                s,
                model,
                sums,
                self._sizes if self.paired else None,
            )
            unusual = (
                sums.sigma_squares > 2.25 * self.expected.size
                or sums.sigma_max > metrics.UNUSUAL_PEAK
            )
            if (
                isinstance(model, tuple)
                and unusual
                and self._sums_products()
                and reference.heavy_tailed
            ):
                sums.sigma_squares = sums.sigma_max = 0.0
                metrics.scaled(
                    self.actual,
                    self.expected,
                    self.tail,
                    s,
                    (model[0], model[1], max(model[1], model[2])),
                    sums,
                    self._sizes,
                )
            if (
                isinstance(model, tuple)
                and sums.sigma_max > _NOTABLE
                and metrics.SIGNS_FROM <= self.expected.size <= _MOST_GROUPED
            ):
                self.cluster = self._clustered(s, model)
            doubtful = (
                sums.scaled_max > 0.5 * _SETTLED_SCALED
                or sums.sigma_squares > 4.0 * self.expected.size
            )
            if doubtful and reference.terms(self.index) > _FEW_TERMS and reference.low_entropy:
                sums.scaled_max *= growth / reference.terms(self.index)
                sums.sigma_squares = sums.sigma_max = (
                    0.0  # errors of equal numbers add up: their statistics mean nothing
                )
                growth = reference.terms(self.index)
            if self.model.kind != "rounded" and not exact and sums.scaled_max <= _SETTLED_SCALED:
                return (ElementGroup(None, sums.ulp_max, sums.scaled_max, sums.abs_max),), False
            if isinstance(s, np.ndarray):
                s = np.nan_to_num(s, nan=0.0, posinf=1e300)
        unit = growth * u
        if s is not None:
            # Below the smallest normal number intermediates round to a fixed step, of which half is
            # lost in double precision.
            step = max(self.form.smallest_normal, 2.0**-1074 / u)
            s = np.where(s == 0.0, 0.0, s + step) if isinstance(s, np.ndarray) else s and s + step
        error = metrics.errors(self.actual, self.expected, self.tail)
        if reference.direction == "backward":
            # Gradient formulas square and divide: their intermediates underflow, or overflow to a
            # zero, before the gradient does.
            error = np.maximum(error - self.form.smallest_normal, 0.0)
            error[
                (self.actual == 0.0) & (np.abs(self.expected) <= 1.0 / self.square_overflows())
            ] = 0.0
        ulp = self._ulp()
        scale = None if s is None else s * unit
        elsewhere = self._span(None, error, ulp, scale, self._outside_ranges())
        return (
            elsewhere,
            *(self._span(interval, error, ulp, scale, mask) for interval, mask in self._ranges()),
        ), exact

    def _error_model(self, growth: float, u: float) -> float | tuple[float, float, float]:
        """G·u, with p and q of σ² where sums of products are measured in σ; the same for every
        backend."""
        key = (self.index, self.form.precision)
        known = self.reference.error_models.get(key)
        if known is None:
            known = growth * u
            if self._sums_products():
                terms, ordered = self.reference.terms(self.index), self.reference.ordered_signs
                known = (
                    known,
                    *healthy_variance(terms, u, self.form.unit_roundoff, ordered=ordered),
                )
            elif self.index in self.reference.of_steps:
                known = (known, u * u / 12.0, (u / self.reference.of_steps[self.index][2]) ** 2)
            self.reference.error_models[key] = known
        return known

    @functools.cached_property
    def _sizes(self) -> Any:
        """Moduli, where parts are differences of sums as large as they: of ac and bd for (a +
        ib)·(c + id). Else None."""
        if not self.paired or self.keep is not None:
            return None
        return np.repeat(np.hypot(self.expected[::2], self.expected[1::2]), 2)

    def _ulp(self) -> Any:
        """ulp of the reference, or of the result where that lies just across the next power of two
        and so is rounded to its ulp.

        Beyond the largest number nothing is rounded to: there is only infinity.
        """
        ulp = dtypes.spacing(self.expected, self.form, np.empty_like(self.expected))
        across = dtypes.spacing(
            self.actual.astype(np.float64), self.form, np.empty_like(self.expected)
        )
        return np.where(
            (across == 2.0 * ulp) & (np.abs(self.actual) < self.form.overflow), across, ulp
        )

    def _clustered(
        self, s: Any, model: tuple[float, float, float]
    ) -> tuple[float, int, str] | None:
        """Where errors of a few σ lie together; nothing where elements were set aside, which leaves
        no rows and tiles."""
        plain = (
            self.form.precision >= 24 and self.reference.direction == "forward"
        )  # others share too many of their roundings
        if not plain or self.keep is not None or math.prod(self.shape) != self.expected.size:
            return None
        _, p, q = model
        q = max(p, q) if self.reference.heavy_tailed else q
        variance = np.maximum(
            p * (self.expected if self._sizes is None else self._sizes) ** 2
            + q * np.nan_to_num(s, nan=0.0, posinf=1e150) ** 2,
            1e-300,
        )
        return metrics.clustered(
            metrics.errors(self.actual, self.expected, self.tail) ** 2 / variance, self.shape
        )

    def _magnitude(self) -> Any:
        """S as a flat array of the elements that are kept, or one number for all of them, or None.
        May hold NaN and infinities."""
        magnitudes = self.reference.magnitudes
        s: Any = magnitudes[self.index] if self.index < len(magnitudes) else None
        if not isinstance(s, torch.Tensor):
            return s
        if s.numel() != self.elements:  # of complex results both parts have one S
            s = torch.broadcast_to(
                s.unsqueeze(-1) if self.paired and s.shape != self.shape else s, self.shape
            )
        s = flat(s, wide=True)
        return s[self.keep] if self.keep is not None else s

    def _span(
        self, interval: tuple[int, float, float] | None, error: Any, ulp: Any, scale: Any, mask: Any
    ) -> ElementGroup:
        if mask is not None:
            error, ulp = error[mask], ulp[mask]
            scale = scale[mask] if isinstance(scale, np.ndarray) else scale
        if not error.size:
            return ElementGroup(interval)
        pareto_points, elements = metrics.pareto_front(error, ulp, scale)
        places = np.flatnonzero(mask) if mask is not None else None
        worst = tuple(self.worst(int(places[i]) if places is not None else i) for i in elements)
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
        """The hull for a backend that may read or write subnormals as zero; None where that makes
        no difference."""
        tiny = self.form.smallest_normal
        outputs = self.reference.flushed()
        if outputs is None and not (np.abs(self.expected) < 4.0 * tiny).any():
            return None
        admitted = error
        if outputs is not None and outputs[self.index].tensor is not None:
            other = flat(outputs[self.index].tensor, wide=True)  # type: ignore[arg-type]
            other = other[self.keep] if self.keep is not None else other
            both = np.abs(self.actual.astype(np.float64) - other)
            both = both[mask] if mask is not None else both
            admitted = np.fmin(error, both)
        return metrics.pareto_front(np.maximum(admitted - tiny, 0.0), ulp, scale)[0]

    def _ranges(self) -> list[tuple[tuple[int, float, float], Any]]:
        """The operator's declared argument ranges as masks over the elements (elementwise
        operators, same shape only)."""
        found = []
        for interval in self.reference.operator.ranges:
            position, low, high = interval
            values = self._argument(position + self.reference.operator.leading)
            if values is not None:
                found.append((interval, (values >= low) & (values <= high)))
        return found

    def _outside_ranges(self) -> Any:
        masks = [mask for _, mask in self._ranges()]
        return ~np.logical_or.reduce(masks) if masks else None

    def _argument(self, position: int) -> Any:
        tensors = self.reference.arguments.tensors
        given = (
            tensors[position]
            if position < len(tensors) and not tensors[position].is_complex()
            else None
        )
        if given is not None and self.name.startswith("arg/"):
            given = self._where_written(given, int(self.name.removeprefix("arg/")))
        if given is None or tuple(given.shape) != self.shape:
            return None
        values = flat(given, wide=True)
        return values[self.keep] if self.keep is not None else values

    def _where_written(self, given: torch.Tensor, destination: int) -> torch.Tensor | None:
        """An argument's numbers at the places of a storage that the destination covers, NaN around
        them; None if none fit."""
        view, base = (
            self.reference.arguments.tensors[destination],
            self.reference.arguments.bases[destination],
        )
        if view.shape != given.shape:
            return given
        return written(torch.full_like(base, torch.nan, dtype=torch.float64), view, given)

    def _admit_alternatives(self, sums: metrics.Sums) -> None:
        """Discontinuous operators: where another admissible answer is nearer, measure against that
        one."""
        hook, reference = self.reference.operator.alternatives, self.reference
        assert hook is not None
        raw = tuple(o.tensor for o in reference.outcome.outputs if o.tensor is not None)
        nearest = metrics.errors(self.actual, self.expected, self.tail)
        for outputs in hook(tuple(reference.arguments.args), reference.arguments.kwargs, raw):
            other = flat(torch.as_tensor(outputs[self.index]).broadcast_to(self.shape), wide=True)
            other = other[self.keep] if self.keep is not None else other
            closer = np.abs(self.actual - other) < nearest
            if closer.any():
                self.expected = np.where(closer, other, self.expected)
                nearest = metrics.errors(self.actual, self.expected, self.tail)
        again = metrics.absolute_and_ulp(self.actual, self.expected, self.tail, self.form)
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
            setattr(sums, name, getattr(again, name))

    def _vacuous(self, sums: metrics.Sums, n: int) -> str:
        """Why agreement would prove nothing: all NaN, mostly zeros, constant."""
        if not self.expected.size:
            return (
                "every number lies beyond the format"
                if "largest" in self.special
                else "no element is finite in both"
            )
        if self.moves_only or "constant" in self.reference.operator.traits or n == 1:
            return ""
        # Elements of an elementwise operator are tests of their own: one that is not zero can tell.
        # So are those of the gradient of what was moved or chosen, zero wherever nothing was read.
        alone = "elementwise" in self.reference.operator.traits or self.model.kind == "exact"
        if sums.nonzero < (1.0 - _MOST_ZEROS) * n and (sums.nonzero == 0 or not alone):
            return f"{n - sums.nonzero} of {n} elements are zero or not finite"
        if (
            n > 2
            and self.expected[0] == self.expected[-1]
            and self.expected.min() == self.expected.max()
        ):
            return "all elements are equal"
        return ""
