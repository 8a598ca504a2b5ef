"""The errors of an output by groups: the elements outside of all declared ranges, and those of each
range; and clusters of rows or tiles that err more than others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..core.model import ElementGroup
from ..reference.error_magnitudes import LARGE
from . import metrics
from .argument_ranges import outside, ranges
from .elements import flat
from .error_places import clustered
from .error_scale import ScaledElements
from .flushed_results import flushed_pareto_front
from .pareto import pareto_front

_SETTLED = 1.0  # G·u·S: smaller errors satisfy every rule in use; only the two maxima are kept
_DOUBTFUL = 0.5 * _SETTLED
# Of a sampling point g: the sum 1 + g, its product with the size and the shift by half a
# pixel are rounded, and a reflected one once more; each by u · (1 + |g|) at most.
_EDGE = 4.0
_FEW_TERMS = 8  # up to which √n and n hardly differ
# Groups are compared above this largest error (σ²), up to this number of elements.
_NOTABLE, _MOST_GROUPED = 9.0, 1 << 20


class GroupedElements(ScaledElements):
    """Elements whose errors are measured in groups. ``cluster``: the RMS (σ) of rows or tiles that
    err more than the others, how many elements they have, and where they are."""

    cluster: tuple[float, int, str] | None = None

    def measure_groups(self, sums: metrics.Sums) -> tuple[tuple[ElementGroup, ...], bool]:
        """S, alternatives, ranges and Pareto fronts: for outputs with an error above correct
        rounding."""
        reference, u = self.reference, self.unit_roundoff()
        if reference.operator.alternatives is not None and reference.direction == "forward":
            self._admit(sums, reference.alternatives(self.index))
        elif reference.operator.edges and reference.direction == "backward":
            self._admit(sums, self._across_edges(u))
        if (bound := self._bound_without_magnitude(sums, u)) is not None:
            return (ElementGroup(None, sums.ulp_max, bound, sums.abs_max),), False
        if self._settled_from_below(sums, u):
            return (ElementGroup(None, sums.ulp_max, sums.scaled_max, sums.abs_max),), False
        magnitude = self.magnitude()
        exact = self.moves_only or (self.model.integers_exact and reference.exact_integers)
        growth = reference.growth(self.index)
        if magnitude is not None:
            model = self.error_model(growth, u)
            squares = self._room_for_squares(model)
            metrics.scaled(
                self.actual,
                self.expected,
                self.tail,
                magnitude,
                model,
                sums,
                self.sizes if self.paired else None,
                squares,
            )
            unusual = (
                sums.sigma_squares > 2.25 * self.expected.size
                or sums.sigma_max > metrics.UNUSUAL_PEAK
            )
            if isinstance(model, tuple) and unusual and self.sums_products():
                narrower = model
                if reference.heavy_tailed:
                    model = (model[0], model[1], max(model[1], model[2]))
                with_steps = self.with_steps_of_terms(magnitude, u, model[2])
                if with_steps is not magnitude or model != narrower:
                    sums.sigma_squares = sums.sigma_max = 0.0
                    metrics.scaled(
                        self.actual,
                        self.expected,
                        self.tail,
                        with_steps,
                        model,
                        sums,
                        self.sizes,
                        squares,
                    )
            if squares is not None and isinstance(model, tuple) and sums.sigma_max > _NOTABLE:
                self.cluster = clustered(squares, self.shape, model[2])
            is_doubtful = (
                sums.scaled_max > _DOUBTFUL or sums.sigma_squares > 4.0 * self.expected.size
            )
            if is_doubtful and reference.terms(self.index) > _FEW_TERMS and reference.low_entropy:
                sums.scaled_max *= growth / reference.terms(self.index)
                # Errors of equal numbers add up: their statistics are meaningless.
                sums.sigma_squares = sums.sigma_max = 0.0
                growth = reference.terms(self.index)
            if self.model.kind != "rounded" and not exact and sums.scaled_max <= _SETTLED:
                return (ElementGroup(None, sums.ulp_max, sums.scaled_max, sums.abs_max),), False
            if isinstance(magnitude, np.ndarray):
                magnitude = np.nan_to_num(magnitude, nan=0.0, posinf=1e300)
        unit = growth * u
        if magnitude is not None:
            magnitude = self.with_step(magnitude, u)
        error = metrics.errors(self.actual, self.expected, self.tail)
        if self.is_gradient:
            # Intermediates of gradient formulas (squares, quotients) underflow, or overflow to a
            # zero, before the gradient does.
            error = np.maximum(error - self.form.smallest_normal, 0.0)
            error[
                (self.actual == 0.0) & (np.abs(self.expected) <= 1.0 / self.square_overflows())
            ] = 0.0
        ulp = self.ulp()
        scale = None if magnitude is None else magnitude * unit
        masks = ranges(self)
        outside_ranges = self._element_group(None, error, ulp, scale, outside(masks))
        return (
            outside_ranges,
            *(self._element_group(interval, error, ulp, scale, mask) for interval, mask in masks),
        ), exact

    def _bound_without_magnitude(self, sums: metrics.Sums, u: float) -> float | None:
        """An upper bound of max e/(G·u·S) of a large output, where it settles the matter and S is
        at least |ref|. Else None.

        For a normal ref, ulp(ref) ≤ 2·u'·|ref| with u' of its format, and e ≤ max(e/ulp)·ulp(ref).
        So e/(G·u·S) ≤ 2·max(e/ulp)·u'/(G·u). As it is below what is doubtful, the entropy of the
        operands does not matter, nor would a Pareto front be built.
        """
        if not (
            self.model.at_least_output
            and self.reference.direction == "forward"
            and self.expected.size > LARGE
            and sums.nonzero == self.expected.size
            and not (sums.small or self.paired or self.sums_products())
            and not self.model.integers_exact
            and self.reference.operator.alternatives is None
        ):
            return None
        bound = 2.0 * sums.ulp_max * self.form.unit_roundoff / u
        bound /= self.reference.growth(self.index)
        return bound if bound <= _DOUBTFUL else None

    def _settled_from_below(self, sums: metrics.Sums, u: float) -> bool:
        """Whether errors are small beside a lower bound of S already, and so small in σ that no
        statistics could object. Then ``sums`` has upper bounds of the quotients."""
        reference = self.reference
        if (
            self.model.below is None
            or reference.input_size <= LARGE
            or self.keep is not None
            or self.paired
            or reference.operator.alternatives is not None
            or (self.model.integers_exact and reference.exact_integers)
            or (below := reference.magnitude_below) is None
        ):
            return False
        found = replace(sums)
        metrics.scaled(
            self.actual,
            self.expected,
            self.tail,
            flat(below, wide=True) if isinstance(below, torch.Tensor) else below,
            self.error_model(reference.growth(self.index), u),
            found,
        )
        # Of the CPU's result, judges use what exceeds σ (RMS) and 3 σ (largest) only.
        if (
            found.scaled_max <= _DOUBTFUL
            and found.sigma_squares <= self.expected.size
            and found.sigma_max <= _NOTABLE
        ):
            sums.scaled_max = found.scaled_max
            sums.sigma_squares, sums.sigma_max = found.sigma_squares, found.sigma_max
            return True
        return False

    def _room_for_squares(
        self, model: float | tuple[float, float, float]
    ) -> np.ndarray[Any, Any] | None:
        """An array for e² in q·σ² of every element, among which clusters are looked for; None where
        errors share roundings, and where elements were excluded, which leaves no rows and
        tiles."""
        independent_roundings = self.form.precision >= 24 and self.reference.direction == "forward"
        if (
            not isinstance(model, tuple)
            or not independent_roundings
            or self.keep is not None
            or math.prod(self.shape) != self.expected.size
            or not metrics.SIGNS_FROM <= self.expected.size <= _MOST_GROUPED
        ):
            return None
        return np.empty(self.expected.size)

    def _across_edges(self, u: float) -> Iterator[Any]:
        """The gradient where the arguments at whose edges it steps are larger or smaller by what
        the operator itself may round them by."""
        edges = self.reference.operator.edges
        for step in (_EDGE * u, -_EDGE * u):

            def moved(base: torch.Tensor, position: int, step: float = step) -> torch.Tensor:
                return base + step * (1.0 + base.abs()) if position in edges else base

            found = self.reference.evaluate(moved)
            tensor = found[self.index].tensor if found else None
            if tensor is not None:
                yield tensor

    def _admit(self, sums: metrics.Sums, alternatives: Iterable[Any]) -> None:
        """Measure against the nearest admissible result."""
        nearest = metrics.errors(self.actual, self.expected, self.tail)
        for output in alternatives:
            alternative = flat(torch.as_tensor(output).broadcast_to(self.shape), wide=True)
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

    def _element_group(
        self, interval: tuple[int, float, float] | None, error: Any, ulp: Any, scale: Any, mask: Any
    ) -> ElementGroup:
        if mask is not None:
            error, ulp = error[mask], ulp[mask]
            scale = scale[mask] if isinstance(scale, np.ndarray) else scale
        if not error.size:
            return ElementGroup(interval)
        pareto_points, elements = pareto_front(error, ulp, scale)
        positions = np.flatnonzero(mask) if mask is not None else None
        worst = tuple(
            self.worst(int(positions[i]) if positions is not None else i) for i in elements
        )
        flushed = flushed_pareto_front(self, error, ulp, scale, mask) if pareto_points else None
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
