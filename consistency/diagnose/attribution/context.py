"""The context of an attribution: one failing output of one backend, and the share of its error
that a hypothesis explains."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ...core import dtypes
from ...core.model import Outcome, Output
from ...reference import Reference
from .shared_factors import least_share
from .simulation import Doubles, Predicted, Simulation, flat

_SIMULATED = 53  # bits of the simulations' format
_FAR = 1e-3
_FAR_LARGER = 1e3
_PART_OF_ONE = 0.125  # of integers: a difference of 1 is beyond four units


class AttributionContext(Simulation):
    """One flagged output: the result, the reference, and the unit of errors.

    ``actual``, ``expected`` and ``unit`` (ulp + G·u·S) are flat float64 arrays; ``failing`` are the
    elements to explain: those beyond four units, or all if only the statistics failed. Where others
    are among them, elements below the format's normal numbers are left out: they may be flushed.
    They alone are explained where the others are off by a thousandth of it at most.
    """

    def __init__(
        self,
        reference: Reference,
        outcome: Outcome,
        output: str,
        *,
        special: bool,
        everywhere: bool,
    ) -> None:
        super().__init__(reference, outcome, output)
        self.special = special
        self.dtype = reference.materials.case.dtype
        self.form = dtypes.form_of(self.dtype)
        # of an argument beside the first, such as running statistics
        self._is_written = output.startswith("arg/") and 0 not in self.operator.mutates
        expected_tensor = reference.outputs[self.index].tensor
        if self.raw is None or expected_tensor is None or self.raw.shape != expected_tensor.shape:
            raise ValueError("nothing to explain: no tensors, or not of one shape")
        self.shape = (
            (*expected_tensor.shape, 2)
            if expected_tensor.is_complex()
            else tuple(expected_tensor.shape)
        )
        self.actual, self.expected = flat(self.raw), self._in_range(flat(expected_tensor))
        self.whole = not self.raw.dtype.is_floating_point and not self.raw.is_complex()
        self.truths = self.raw.dtype == torch.bool
        self.unit = self._unit()
        with np.errstate(all="ignore"):
            relative_error = np.abs(self.actual - self.expected) / self.unit
        finite = np.isfinite(self.actual) & np.isfinite(self.expected)
        self.mismatch = ~_same_class(self.actual, self.expected)
        if (self.mismatch & ~finite).any():  # signs of zeros say nothing of why NaN differs
            self.mismatch &= ~finite
        if np.isinf(
            self.actual[np.isfinite(self.expected)]
        ).any():  # infinities are explained as special values
            self.special = special = True
        beyond_budget = finite & (relative_error > 4.0)
        underflows = self._below_normal_numbers()
        flushed, others = beyond_budget & underflows, beyond_budget & ~underflows
        if others.any():  # flushed ones say nothing of the others' fault
            largest = np.max(relative_error[others])
            alone = np.max(relative_error[flushed], initial=0.0) > _FAR_LARGER * largest
            kept = underflows if alone else ~underflows
            finite, beyond_budget = finite & kept, beyond_budget & kept
        self.failing = (
            self.mismatch
            if special
            else (finite if everywhere or not beyond_budget.any() else beyond_budget)
        )
        self.finite = finite
        self.distinct = np.unique(self.actual[self.failing]).size
        with np.errstate(all="ignore"):
            # in units of the budget
            self.size = _norm(((self.actual - self.expected) / self.unit)[self.failing])

    def _in_range(self, numbers: Doubles) -> Doubles:
        """With infinity for what the tested format rounds to it: that is no early overflow."""
        if self.form is None:
            return numbers
        beyond = np.isfinite(numbers) & (np.abs(numbers) >= self.form.overflow)
        return np.where(beyond, np.copysign(np.inf, numbers), numbers) if beyond.any() else numbers

    def _below_normal_numbers(self) -> npt.NDArray[np.bool_]:
        """Where the result and the reference, which is not zero, are both smaller than the format's
        normal numbers. A zero that stays one is no underflow, and may contradict a hypothesis."""
        least = self.form.smallest_normal if self.form is not None and not self.whole else 0.0
        with np.errstate(all="ignore"):
            largest = np.maximum(np.abs(self.actual), np.abs(self.expected))
        return np.asarray((largest < least) & (self.expected != 0.0))

    def _unit(self) -> Doubles:
        ulp = dtypes.spacing(
            self.expected, self.form or dtypes.FORMATS["float32"], np.empty_like(self.expected)
        )
        if self.whole:  # nothing is rounded, and a sum of signed integers is no magnitude
            return np.minimum(ulp, _PART_OF_ONE)
        magnitudes = self.reference.magnitudes
        term_sum: Any = magnitudes[self.index] if self.index < len(magnitudes) else None
        if isinstance(term_sum, torch.Tensor):
            if term_sum.numel() != self.expected.size:
                paired = (
                    self.raw is not None and self.raw.is_complex() and term_sum.shape != self.shape
                )
                term_sum = torch.broadcast_to(
                    term_sum.unsqueeze(-1) if paired else term_sum, self.shape
                )
            term_sum = np.nan_to_num(flat(term_sum), posinf=0.0)
            term_sum = term_sum if term_sum.size == self.expected.size else None
        if term_sum is None:
            return ulp
        roundoff = (self.form or dtypes.FORMATS["float32"]).unit_roundoff
        return np.asarray(ulp + self.reference.growth(self.index) * roundoff * term_sum)

    def share(self, predicted: Predicted) -> float:
        """The share of the error that ``predicted`` explains: 1 − ‖actual − predicted‖/‖actual −
        reference‖, in units of the budget.

        It covers the failing elements and those that the fault would have changed. For special
        values: the share of the elements that are reproduced.
        """
        tensor = predicted[self.index].tensor if self.index < len(predicted) else None
        if tensor is None:
            return 0.0
        prediction = flat(tensor)
        if prediction.size != self.expected.size:
            return 0.0
        if self._is_written and not self.explains_returned(predicted):
            return 0.0
        with np.errstate(all="ignore"):
            if self.special:
                return self._special_share(prediction)
            changed = np.abs(prediction - self.expected) > 4.0 * self.unit
            compared = (self.failing | (changed & self.finite)) & np.isfinite(prediction)
            residual = ((self.actual - prediction) / self.unit)[compared]
            unexplained = ((self.actual - self.expected) / self.unit)[
                self.failing & ~np.isfinite(prediction)
            ]
            remaining = math.hypot(_norm(residual), _norm(unexplained))
        return 1.0 - remaining / self.size if self.size > 0.0 and math.isfinite(remaining) else 0.0

    def explains_returned(self, predicted: Predicted) -> bool:
        """Of a flagged argument that was written to: whether what the call returned is as
        predicted, to a thousandth of its largest number. A formula that writes nothing explains an
        argument that is left as it was, but not what comes back."""
        for i, (right, observed) in enumerate(
            zip(self.reference.outputs, self.observed, strict=False)
        ):
            if i == self.index or right.name.startswith("arg/"):
                continue
            simulated = predicted[i].tensor if i < len(predicted) else None
            expected = right.tensor if simulated is None else simulated
            if expected is None or observed.tensor is None:
                continue
            prediction, actual = flat(expected), flat(observed.tensor)
            if prediction.size != actual.size:
                return False
            both = np.isfinite(prediction) & np.isfinite(actual)
            largest = np.max(np.abs(actual[both]), initial=0.0)
            if np.max(np.abs(actual[both] - prediction[both]), initial=0.0) > _FAR * largest:
                return False
        return True

    @property
    def simulated_in_its_own_format(self) -> bool:
        """Whether simulations, in float64, are rounded like the result."""
        return self.form is not None and self.form.precision >= _SIMULATED

    def exceeds_rounding(self, predicted: Predicted) -> bool:
        """Whether ``predicted`` differs from the reference by more than its own rounding somewhere;
        always so in formats narrower than float64, in which nothing was rounded."""
        if not self.simulated_in_its_own_format:
            return True
        tensor = predicted[self.index].tensor if self.index < len(predicted) else None
        if tensor is None or flat(tensor).size != self.expected.size:
            return False
        with np.errstate(all="ignore"):
            moved = np.abs(flat(tensor) - self.expected) > 4.0 * self.unit
        return bool((moved & self.finite).any())

    def correlation(self, predicted: Predicted) -> float:
        """The correlation of errors e with predictions p in standard deviations: Σ e·p / √Σ (e·p)²,
        both centered.

        If the signs of e are independent of p, this exceeds t with a probability of at most
        exp(−t²/2), whatever the sizes. Centering is needed because healthy sums may be biased, e.g.
        those of a large mean and small terms. Elements below the format's normal numbers are left
        out: what underflows errs by itself, so that its errors are no signs of a coin. Elements
        that repeat one another, as where a gradient is broadcast, count once: one sum, one error.
        """
        if (both := self._errors(predicted)) is None:
            return 0.0
        with np.errstate(all="ignore"):
            error, expected = both
            compared = self.failing & np.isfinite(error) & np.isfinite(expected)
            if self.form is not None:
                compared &= np.abs(self.expected) >= self.form.smallest_normal
            error, expected = _distinct(
                error[compared], expected[compared], self.expected[compared]
            )
            products = (
                (error - error.mean()) * (expected - expected.mean()) if error.size else error
            )
        size = _norm(products)
        return float(products.sum()) / size if size > 0.0 else 0.0

    def share_beyond_factors(self, predicted: Predicted) -> float:
        """:meth:`share`, beyond what a factor explains that rows have in common."""
        if (both := self._errors(predicted)) is None:
            return 0.0
        with np.errstate(all="ignore"):
            vectors = (*both, self.expected / self.unit)
        compared = functools.reduce(np.logical_and, map(np.isfinite, vectors), self.failing)
        error, moved, numbers = (np.where(compared, values, 0.0) for values in vectors)
        return least_share(error, moved, numbers, self.shape)

    def _errors(self, predicted: Predicted) -> tuple[Doubles, Doubles] | None:
        """The errors of the result and of a prediction, in units; None of another size."""
        tensor = predicted[self.index].tensor if self.index < len(predicted) else None
        if tensor is None or flat(tensor).size != self.expected.size:
            return None
        with np.errstate(all="ignore"):
            error, moved = (
                (values - self.expected) / self.unit for values in (self.actual, flat(tensor))
            )
        return error, moved

    def _special_share(self, prediction: Doubles) -> float:
        # Of an infinity the unit is infinite, too, and any number would be near any other.
        unit = np.where(np.isfinite(self.expected), self.unit, 0.0)
        is_near = np.abs(self.actual - prediction) <= 0.01 * np.abs(self.actual) + 4.0 * unit
        matches = _same_class(self.actual, prediction) & (~np.isfinite(prediction) | is_near)
        # Elements that the fault leaves correct do not contradict it.
        harmless = _same_class(self.expected, prediction) & (
            ~np.isfinite(prediction) | (np.abs(self.expected - prediction) <= 4.0 * self.unit)
        )
        hits, contradicted = (
            np.count_nonzero(matches & self.mismatch),
            np.count_nonzero(~matches & ~self.mismatch & ~harmless),
        )
        total = np.count_nonzero(self.mismatch)
        return float(hits) / (total + contradicted) if total else 0.0

    def outputs(self, array: Doubles | torch.Tensor) -> Predicted:
        """``array`` as the flagged output."""
        tensor = (
            array
            if isinstance(array, torch.Tensor)
            else torch.from_numpy(array.reshape(self.shape))
        )
        return [Output("", None)] * self.index + [Output("", tensor)]


def _same_class(a: Doubles, b: Doubles) -> npt.NDArray[np.bool_]:
    """Elementwise: both NaN, the same infinity, or both finite and, if zero, of the same sign."""
    nan_a, nan_b, inf = np.isnan(a), np.isnan(b), np.isinf(a) | np.isinf(b)
    zeros = (a == 0.0) & (b == 0.0) & (np.signbit(a) != np.signbit(b))
    return np.asarray((nan_a == nan_b) & ~(inf & (a != b) & ~nan_a) & ~zeros)


def _norm(values: Doubles) -> float:
    largest = float(np.max(np.abs(values))) if values.size else 0.0
    return (
        largest * float(np.linalg.norm(values / largest)) if 0.0 < largest < math.inf else largest
    )


def _distinct(error: Doubles, predicted: Doubles, true: Doubles) -> tuple[Doubles, Doubles]:
    """Errors and predictions, one of each pair of a prediction and a true value: the mean error."""
    _, first, group, members = np.unique(
        predicted + 1j * true, return_index=True, return_inverse=True, return_counts=True
    )
    sums = np.bincount(group.reshape(-1), weights=error, minlength=members.size)
    return sums / members, predicted[first]
