"""The context of an attribution: one failing output of one backend, and how much of its error a
fault hypothesis explains."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ...backends.base import collect
from ...core import dtypes
from ...core.model import Outcome, Output
from ...generate.materialize import Adjust, Arguments
from ...operators.declare import UNCHECKED
from ...reference import Reference

Doubles = npt.NDArray[np.float64]
Predicted = Sequence[Output]
# What calling an operator on changed arguments may raise; such a hypothesis is skipped.
REFUSALS = (
    RuntimeError,
    ValueError,
    IndexError,
    TypeError,
    NotImplementedError,
    AttributeError,
    KeyError,
    ArithmeticError,
)


@dataclass(frozen=True, slots=True)
class FaultHypothesis:
    """A possible fault: its id, its name in a sentence, and a function that simulates it in
    float64.

    ``fitted`` counts the parameters that are adjusted to the result, which therefore needs more
    elements to mean anything.
    """

    name: str
    words: str
    simulate: Callable[[], Predicted]
    fitted: int = 0


Hypotheses = Iterator[FaultHypothesis]


class AttributionContext:
    """One flagged output: what came back, the reference, and the unit in which errors count.

    ``actual``, ``expected`` and ``unit`` (ulp + G·u·S) are flat float64 arrays; ``failing`` are the
    elements to explain: those beyond one unit of the budget, or all where only statistics objected.
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
        self.reference, self.operator, self.special = reference, reference.operator, special
        self.backward = reference.direction == "backward"
        self.dtype = reference.materials.case.dtype
        self.form = dtypes.form_of(self.dtype)
        seen = reference.observed(outcome.outputs)
        names = [o.name for o in reference.outputs]
        self.index = names.index(output) if output in names else 0
        self.raw = seen[self.index].tensor if self.index < len(seen) else None
        want = reference.outputs[self.index].tensor
        if self.raw is None or want is None or self.raw.shape != want.shape:
            raise ValueError("nothing to explain: no tensors, or not of one shape")
        self.shape = (*want.shape, 2) if want.is_complex() else tuple(want.shape)
        self.actual, self.expected = flat(self.raw), flat(want)
        self.unit = self._unit()
        with np.errstate(all="ignore"):
            excess = np.abs(self.actual - self.expected) / self.unit
        self.mismatch = ~_agree_in_kind(self.actual, self.expected)
        finite = np.isfinite(self.actual) & np.isfinite(self.expected)
        if np.isinf(
            self.actual[np.isfinite(self.expected)]
        ).any():  # measured as a number, but to be explained as an infinity
            self.special = special = True
        beyond = finite & (excess > 4.0)
        self.failing = (
            self.mismatch if special else (finite if everywhere or not beyond.any() else beyond)
        )
        self.finite = finite
        self.distinct = np.unique(self.actual[self.failing]).size
        self.whole = not self.raw.dtype.is_floating_point and not self.raw.is_complex()
        with np.errstate(all="ignore"):
            self.size = _norm(
                ((self.actual - self.expected) / self.unit)[self.failing]
            )  # ‖error‖ in units of the budget

    def _unit(self) -> Doubles:
        ulp = dtypes.spacing(
            self.expected, self.form or dtypes.FORMATS["float32"], np.empty_like(self.expected)
        )
        found = self.reference.magnitudes
        s: Any = found[self.index] if self.index < len(found) else None
        if isinstance(s, torch.Tensor):
            if s.numel() != self.expected.size:
                paired = self.raw is not None and self.raw.is_complex() and s.shape != self.shape
                s = torch.broadcast_to(s.unsqueeze(-1) if paired else s, self.shape)
            s = np.nan_to_num(flat(s), posinf=0.0)
            s = s if s.size == self.expected.size else None
        if s is None:
            return ulp
        roundoff = (self.form or dtypes.FORMATS["float32"]).unit_roundoff
        return np.asarray(ulp + self.reference.growth(self.index) * roundoff * s)

    def share(self, predicted: Predicted) -> float:
        """How much of the error ``predicted`` explains: 1 − ‖actual − predicted‖/‖actual −
        reference‖, in units of the budget.

        Over the failing elements and those that the supposed fault would have changed. Of special
        values: the share of the elements that come out right.
        """
        tensor = predicted[self.index].tensor if self.index < len(predicted) else None
        if tensor is None:
            return 0.0
        p = flat(tensor)
        if p.size != self.expected.size:
            return 0.0
        with np.errstate(all="ignore"):
            if self.special:
                return self._special_share(p)
            spoiled = np.abs(p - self.expected) > 4.0 * self.unit
            where = (self.failing | (spoiled & self.finite)) & np.isfinite(p)
            after = ((self.actual - p) / self.unit)[where]
            missing = ((self.actual - self.expected) / self.unit)[self.failing & ~np.isfinite(p)]
            left = math.hypot(_norm(after), _norm(missing))
        return 1.0 - left / self.size if self.size > 0.0 and math.isfinite(left) else 0.0

    def correlation(self, predicted: Predicted) -> float:
        """By how many standard deviations the errors follow a prediction: Σ e·p / √Σ (e·p)², of
        both what differs from their means.

        If the signs of e have nothing to do with p, this exceeds t with a probability of exp(−t²/2)
        at most, however sizes differ. Means are left out because healthy sums may lean to one side,
        as those of a large mean with little added to it do.
        """
        tensor = predicted[self.index].tensor if self.index < len(predicted) else None
        if tensor is None or flat(tensor).size != self.expected.size:
            return 0.0
        with np.errstate(all="ignore"):
            error, expected = (
                (values - self.expected) / self.unit for values in (self.actual, flat(tensor))
            )
            both = self.failing & np.isfinite(error) & np.isfinite(expected)
            error, expected = error[both], expected[both]
            together = (
                (error - error.mean()) * (expected - expected.mean()) if error.size else error
            )
        size = _norm(together)
        return float(together.sum()) / size if size > 0.0 else 0.0

    def _special_share(self, p: Doubles) -> float:
        near = np.abs(self.actual - p) <= 0.01 * np.abs(self.actual) + 4.0 * self.unit
        close = _agree_in_kind(self.actual, p) & (~np.isfinite(p) | near)
        # What the fault leaves as it should be is not spoiled by it, even if something else is
        # wrong there.
        kept = _agree_in_kind(self.expected, p) & (
            ~np.isfinite(p) | (np.abs(self.expected - p) <= 4.0 * self.unit)
        )
        hits, spoiled = (
            np.count_nonzero(close & self.mismatch),
            np.count_nonzero(~close & ~self.mismatch & ~kept),
        )
        total = np.count_nonzero(self.mismatch)
        return float(hits) / (total + spoiled) if total else 0.0

    # How hypotheses simulate their faults.

    def with_inputs(self, adjust: Adjust) -> Predicted:
        """The outputs when ``adjust(base, position)`` has changed the inputs (going back also the
        cotangent)."""
        return self.reference.evaluate(adjust)

    def with_call(
        self, change: Callable[[Arguments], tuple[list[Any], dict[str, Any]]], function: Any = None
    ) -> Predicted:
        """The outputs of another call: ``change`` gives its arguments from untouched float64 ones,
        ``function`` what is called."""
        leaves = self.backward and self.operator.leaves
        arguments = self.reference.materials.build("float64", gradients=leaves)
        args, kwargs = change(arguments)
        if (
            function is None
            and UNCHECKED in self.operator.traits
            and not _as_safe((arguments.args, arguments.kwargs), (args, kwargs))
        ):
            raise ValueError(
                "a kernel that does not check its arguments is not given other sizes or positions"
            )
        called = function or self.operator.reference or self.operator
        return self.reference.observed(
            collect(lambda _a, _k: called(*args, **kwargs), self.operator, arguments, self.backward)
        )

    def outputs(self, array: Doubles | torch.Tensor) -> Predicted:
        """``array`` as the flagged output."""
        tensor = (
            array
            if isinstance(array, torch.Tensor)
            else torch.from_numpy(array.reshape(self.shape))
        )
        return [Output("", None)] * self.index + [Output("", tensor)]


def _as_safe(before: Any, after: Any) -> bool:
    """Whether a call differs in floating numbers and in words only: what a kernel computes
    addresses from is as it was."""
    if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor):
        if before.shape != after.shape or before.dtype != after.dtype:
            return False
        return (
            before.dtype.is_floating_point
            or before.is_complex()
            or after is before
            or bool(torch.equal(before, after))
        )
    if isinstance(before, (list, tuple)) and isinstance(after, (list, tuple)):
        return len(before) == len(after) and all(map(_as_safe, before, after))
    if isinstance(before, dict) and isinstance(after, dict):
        named = {name: (before.get(name, value), value) for name, value in after.items()}
        return before.keys() <= after.keys() and all(_as_safe(*pair) for pair in named.values())
    if isinstance(before, (float, str)):
        return type(before) is type(after)
    return before is after or (type(before) is type(after) and bool(before == after))


def flat(tensor: torch.Tensor) -> Doubles:
    """A tensor's numbers in float64, complex ones as pairs."""
    tensor = tensor.detach().resolve_conj()
    tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return np.ascontiguousarray(tensor.to(torch.float64).reshape(-1).numpy())


def _agree_in_kind(a: Doubles, b: Doubles) -> npt.NDArray[np.bool_]:
    """Elementwise: both NaN, the same infinity, or both finite and, where zero, of one sign."""
    nan_a, nan_b, inf = np.isnan(a), np.isnan(b), np.isinf(a) | np.isinf(b)
    zeros = (a == 0.0) & (b == 0.0) & (np.signbit(a) != np.signbit(b))
    return np.asarray((nan_a == nan_b) & ~(inf & (a != b) & ~nan_a) & ~zeros)


def _norm(values: Doubles) -> float:
    largest = float(np.max(np.abs(values))) if values.size else 0.0
    return (
        largest * float(np.linalg.norm(values / largest)) if 0.0 < largest < math.inf else largest
    )
