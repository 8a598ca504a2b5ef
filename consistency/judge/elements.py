"""Elements of one floating-point output and its reference; special values (NaN, infinities,
signed zeros) are separated."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import torch

from ..core import dtypes
from ..core.dtypes import Format
from ..core.model import Worst
from ..reference import Reference
from . import metrics


def flat(tensor: torch.Tensor, wide: bool = False) -> np.ndarray[Any, Any]:
    """The tensor's numbers as a flat array, in float64 if ``wide`` or bfloat16; complex ones as
    pairs."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if (wide and tensor.dtype != torch.float64) or tensor.dtype == torch.bfloat16:
        tensor = tensor.to(torch.float64)
    return tensor.numpy().reshape(-1)


def _flat_reference(
    reference: Reference, index: int, expected: torch.Tensor
) -> tuple[np.ndarray[Any, Any], Any, metrics.ReferenceBinades | None]:
    """Expected numbers, their tail and binades, cached for all backends."""
    tail = reference.tails[index] if index < len(reference.tails) else None
    cached = reference.flattened.get(index)
    if cached is None or cached[0] is not expected or cached[1] is not tail:
        numbers = flat(expected, wide=True)
        binades = metrics.ReferenceBinades(numbers) if 0 < numbers.size <= metrics.KEPT else None
        cached = (
            expected,
            tail,
            numbers,
            flat(tail, wide=True) if tail is not None else None,
            binades,
        )
        reference.flattened[index] = cached
    return cached[2], cached[3], cached[4]


def _is_beyond(pairs: np.ndarray[Any, Any], limit: float) -> Any:
    """Which complex numbers have a part that is NaN or at least ``limit``."""
    return ~(np.abs(pairs.reshape(-1, 2)) < limit).all(1)


class Elements:
    """``actual``, ``expected`` and its ``tail``: flat arrays of the elements whose error is
    measured.

    Initially these are all; after separating special values, ``keep`` has the positions of the
    others, ``special`` counts mismatches by kind, and ``special_worst`` is one of them. ``paired``:
    the last dimension holds the two parts of complex numbers.
    """

    def __init__(
        self,
        index: int,
        name: str,
        dtype: str,
        shape: tuple[int, ...],
        actual: torch.Tensor,
        expected: torch.Tensor,
        form: Format,
        reference: Reference,
        paired: bool = False,
    ) -> None:
        self.paired, self.complex = paired, reference.dtype in dtypes.PARTS
        self.index, self.name, self.dtype, self.shape, self.form = index, name, dtype, shape, form
        self.reference, self.model = reference, reference.model
        # Gradients of data movement are sums; only in forward does every difference count.
        self.moves_only = self.model.kind == "exact" and reference.direction == "forward"
        self.actual, (self.expected, self.tail, known) = (
            flat(actual),
            _flat_reference(reference, index, expected),
        )
        self.known = known
        self.special: dict[str, int] = {}
        self.special_worst: Worst | None = None
        self.keep: np.ndarray[Any, Any] | None = None
        self.elements = self.expected.size

    def placed(self, error: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if self.keep is None:
            return error
        full = np.zeros(math.prod(self.shape))
        full[self.keep] = error
        return full

    def worst(self, element: int) -> Worst:
        position = int(self.keep[element]) if self.keep is not None else element
        index = tuple(int(i) for i in np.unravel_index(position, self.shape)) if self.shape else ()
        return Worst(index, float(self.actual[element]), float(self.expected[element]))

    def square_overflows(self) -> float:
        """The number whose square overflows: beyond it intermediates of a gradient may be
        infinite (or zero)."""
        return float(2.0 ** (self.form.max_exponent // 2))

    def set_special_aside(self) -> None:
        """Count mismatching NaN and infinities, then keep the elements that are finite in both.

        An infinity where the reference is finite counts as the first power of two that overflows,
        so that rounding at the overflow threshold is measured like any other; likewise a reference
        beyond it. float64 does not hold that power: it is the largest number and a tail there.
        """
        actual, expected = self.actual.astype(np.float64), self.expected
        limit = self.form.overflow
        if self.paired and not self.moves_only:
            # C99, Annex G leaves open which part becomes NaN or infinite: all count as the same.
            both_special = np.repeat(_is_beyond(actual, math.inf) & _is_beyond(expected, limit), 2)
            actual, expected = (
                np.where(both_special, np.nan, actual),
                np.where(both_special, np.nan, expected),
            )
        nan_a, nan_e = np.isnan(actual), np.isnan(expected)
        inf_e = np.isinf(expected)
        wrong_nan = nan_a != nan_e
        wrong_inf = (
            ~nan_a
            & inf_e
            & (actual != expected)
            & ~((np.abs(actual) == np.inf) & (actual == expected))
        )
        if math.isfinite(limit):
            actual = np.where(np.isinf(actual) & ~inf_e, np.copysign(limit, actual), actual)
            expected = np.where(inf_e, expected, np.clip(expected, -limit, limit))
        else:
            actual = self._at_overflow_of_float64(actual)
            wrong_inf |= np.isinf(actual) & ~inf_e & ~nan_e
        saturated = self.held()
        nan_dropped = self._ignores_nan(nan_e & ~nan_a)
        flushed = self._matches_flushed(wrong_nan | wrong_inf) & ~nan_dropped
        kinds = {"nan": wrong_nan & ~nan_dropped & ~flushed, "inf": wrong_inf & ~flushed,
        "nan-dropped": nan_dropped, "flushed": flushed,
                 "largest": saturated}  # fmt: skip
        for kind, mask in kinds.items():
            count = int(np.count_nonzero(mask))
            if count:
                self.special[kind] = count
                self.special_worst = self.special_worst or self.worst(int(np.flatnonzero(mask)[0]))
        excluded = nan_a | nan_e | inf_e | np.isinf(actual) | saturated
        if self.is_gradient:
            excluded |= np.isinf(self.actual) & (np.abs(expected) >= self.square_overflows())
        self.keep = np.flatnonzero(~excluded)
        if self.tail is not None:  # what belongs to the limit has no tail
            beyond = np.abs(self.expected) >= limit
            self.tail = np.where(beyond, 0.0, np.nan_to_num(self.tail))[self.keep]
        self.actual, self.expected = actual[self.keep], expected[self.keep]

    def _at_overflow_of_float64(self, actual: Any) -> Any:
        """The results with the largest number in place of an infinity where the reference comes
        within some 32 units of it; the step between them goes to the tail."""
        largest = sys.float_info.max
        with np.errstate(invalid="ignore"):
            near = np.isinf(actual) & np.isfinite(self.expected) & (actual * self.expected > 0)
        near &= np.abs(self.expected) >= largest * (1.0 - 2.0**-48)
        if self.moves_only or not near.any():
            return actual
        tail = np.zeros(actual.shape) if self.tail is None else self.tail
        self.tail = np.where(near, tail - np.copysign(math.ulp(largest), actual), tail)
        return np.where(near, np.copysign(largest, actual), actual)

    @property
    def is_gradient(self) -> bool:
        """Whether the numbers are derivatives: going backward, and of operators that return
        some."""
        return (
            self.reference.direction == "backward"
            or self.reference.operator.derivative_of is not None
        )

    def held(self) -> Any:
        """Where the largest finite number replaces an infinity, as in rounding toward zero."""
        largest = self.form.overflow * (1.0 - self.form.unit_roundoff)
        overflows = np.isfinite(self.expected) & (np.abs(self.expected) >= self.form.overflow)
        return overflows & (self.actual.astype(np.float64) == np.copysign(largest, self.expected))

    def _ignores_nan(self, missing: Any) -> Any:
        """Which elements with a ``missing`` NaN hold the result for the other numbers, in the
        result's format: a bound that is a Python number may lie between two of its numbers."""
        matches = np.zeros_like(missing)
        for outputs in self.reference.without_nan if missing.any() else ():
            tensor = outputs[self.index].tensor if self.index < len(outputs) else None
            if tensor is not None and tensor.numel() == missing.size:
                rounded = tensor.to(dtypes.TORCH[self.dtype]) if self.dtype else tensor
                matches |= missing & (self.actual == flat(rounded, wide=True))
        return matches

    def _matches_flushed(self, wrong: Any) -> Any:
        """Which wrong NaN and infinities are correct for subnormal inputs flushed to zero (0 ·
        ∞, 1 / 0)."""
        outputs = (
            self.reference.flushed()
            if wrong.any() and self.reference.direction == "forward"
            else None
        )
        tensor = (
            outputs[self.index].tensor
            if outputs is not None and self.index < len(outputs)
            else None
        )
        if tensor is None or tensor.numel() != wrong.size:
            return np.zeros_like(wrong)
        flushed = flat(tensor, wide=True)
        return wrong & ((self.actual == flushed) | (np.isnan(self.actual) & np.isnan(flushed)))

    def signed_zeros_matter(self) -> bool:
        """Not for computed complex results: their zeros are differences of products."""
        if self.moves_only or self.is_gradient:
            return self.moves_only
        return "elementwise" in self.reference.operator.traits and not self.complex

    def check_zero_signs(self) -> None:
        zeros = (self.expected == 0.0) & (self.actual == 0.0)
        wrong = zeros & (np.signbit(self.expected) != np.signbit(self.actual))
        count = int(np.count_nonzero(wrong))
        if count:
            self.special["zero-sign"] = count
            self.special_worst = self.special_worst or self.worst(int(np.flatnonzero(wrong)[0]))
