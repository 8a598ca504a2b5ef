"""The numbers of one floating-point output beside those of float64, and what is set aside: NaN,
infinities, signs of zeros."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from ..core import dtypes
from ..core.dtypes import Format
from ..core.model import Worst
from ..reference import Reference
from . import metrics


def flat(tensor: torch.Tensor, wide: bool = False) -> np.ndarray[Any, Any]:
    """The tensor's numbers in a row, as they are, or (``wide``, and always of bfloat16) in float64;
    of complex ones both parts."""
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
    """Expected numbers, their tail, and what is known of them: made once for all backends."""
    tail = reference.tails[index] if index < len(reference.tails) else None
    made = reference.flattened.get(index)
    if made is None or made[0] is not expected or made[1] is not tail:
        numbers = flat(expected, wide=True)
        known = metrics.ReferenceBinades(numbers) if 0 < numbers.size <= metrics.BLOCK else None
        made = expected, tail, numbers, flat(tail, wide=True) if tail is not None else None, known
        reference.flattened[index] = made
    return made[2], made[3], made[4]


def _beyond(pairs: np.ndarray[Any, Any], limit: float) -> Any:
    """Of which complex numbers a part is NaN, or at least ``limit``."""
    return ~(np.abs(pairs.reshape(-1, 2)) < limit).all(1)


class Elements:
    """``actual``, ``expected`` and its ``tail``: flat arrays of the elements whose distance is
    measured.

    At first these are all; where some are set aside, ``keep`` has the positions of the others,
    ``special`` counts by kind those that are wrong, and ``special_worst`` is one of them.
    ``paired``: the last dimension holds the two parts of complex numbers.
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
        self.paired, self.complex = paired, reference.materials.case.dtype in dtypes.PARTS
        self.index, self.name, self.dtype, self.shape, self.form = index, name, dtype, shape, form
        self.reference, self.model = reference, reference.model
        # The gradients of data movement are sums: only going forward does every difference count.
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
        place = int(self.keep[element]) if self.keep is not None else element
        index = tuple(int(i) for i in np.unravel_index(place, self.shape)) if self.shape else ()
        return Worst(index, float(self.actual[element]), float(self.expected[element]))

    def square_overflows(self) -> float:
        """Where the square of a number leaves the format: beyond it a gradient's intermediates may
        be infinite (or zero)."""
        return float(2.0 ** (self.form.max_exponent // 2))

    def set_special_aside(self) -> None:
        """Count mismatching NaN and infinities, then go on with the elements that are finite in
        both.

        An infinity where the reference is finite stands for the first power of two that does not
        fit, so that rounding at the overflow threshold is measured like any other rounding;
        likewise a reference beyond it.
        """
        actual, expected = self.actual.astype(np.float64), self.expected
        limit = self.form.overflow
        if self.paired and not self.moves_only:
            # What becomes of NaN and infinities, and of which part, is not agreed on (C99, Annex
            # G): all are of one kind.
            neither = np.repeat(_beyond(actual, math.inf) & _beyond(expected, limit), 2)
            actual, expected = (
                np.where(neither, np.nan, actual),
                np.where(neither, np.nan, expected),
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
            wrong_inf |= np.isinf(actual) & ~inf_e & ~nan_e
        held = self.held()
        dropped = self._without_nan(nan_e & ~nan_a)
        flushed = self._as_if_flushed(wrong_nan | wrong_inf) & ~dropped
        kinds = {"nan": wrong_nan & ~dropped & ~flushed, "inf": wrong_inf & ~flushed,
        "nan-dropped": dropped, "flushed": flushed,
                 "largest": held}  # fmt: skip
        for kind, mask in kinds.items():
            count = int(np.count_nonzero(mask))
            if count:
                self.special[kind] = count
                self.special_worst = self.special_worst or self.worst(int(np.flatnonzero(mask)[0]))
        left_out = nan_a | nan_e | inf_e | np.isinf(actual) | held
        if self.reference.direction == "backward":
            left_out |= np.isinf(self.actual) & (np.abs(expected) >= self.square_overflows())
        self.keep = np.flatnonzero(~left_out)
        self.actual, self.expected = actual[self.keep], expected[self.keep]
        self.tail = np.nan_to_num(self.tail[self.keep]) if self.tail is not None else None

    def held(self) -> Any:
        """Where the largest number stands in place of an infinity, as rounding toward zero
        gives."""
        largest = self.form.overflow * (1.0 - self.form.unit_roundoff)
        beyond = np.isfinite(self.expected) & (np.abs(self.expected) >= self.form.overflow)
        return beyond & (self.actual.astype(np.float64) == np.copysign(largest, self.expected))

    def _without_nan(self, missing: Any) -> Any:
        """Which of the elements where a NaN is ``missing`` hold what a choice among the other
        numbers would give."""
        found = np.zeros_like(missing)
        for outputs in self.reference.without_nan if missing.any() else ():
            chosen = outputs[self.index].tensor if self.index < len(outputs) else None
            if chosen is not None and chosen.numel() == missing.size:
                found |= missing & (self.actual == flat(chosen, wide=True))
        return found

    def _as_if_flushed(self, wrong: Any) -> Any:
        """Which of the wrong NaN and infinities are right for subnormal inputs that read as zero (0
        · ∞, 1 / 0)."""
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
        other = flat(tensor, wide=True)
        return wrong & ((self.actual == other) | (np.isnan(self.actual) & np.isnan(other)))

    def signed_zeros_matter(self) -> bool:
        """Not of complex results that are computed: their zeros are differences of products."""
        if self.moves_only or self.reference.direction == "backward":
            return self.moves_only
        return "elementwise" in self.reference.operator.traits and not self.complex

    def check_zero_signs(self) -> None:
        both = (self.expected == 0.0) & (self.actual == 0.0)
        wrong = both & (np.signbit(self.expected) != np.signbit(self.actual))
        count = int(np.count_nonzero(wrong))
        if count:
            self.special["zero-sign"] = count
            self.special_worst = self.special_worst or self.worst(int(np.flatnonzero(wrong)[0]))
