"""What the numbers of a case's operands say of its rounding errors: whether they add up, correlate,
or depend on the order of summation."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..core import dtypes
from ..core.recipe import TensorRecipe, tensors
from ..generate.exhaustive import is_exhaustive
from ..generate.materialize import Arguments, Materials

_LOW_ENTROPY = 16
# Shares of distinct numbers below which rounding errors add up, or errors of results correlate.
_FEW_KINDS, _VARIED = 0.25, 0.45
_COMMON = 0.1  # share of the most frequent number beyond which its rounding errors add up
_HEAVY = 8.0  # largest number ÷ mean magnitude beyond which a partial sum is soon as large as S


class InputNumbers:
    """The numbers of a case's operands; each property is computed once."""

    materials: Materials

    @functools.cached_property
    def arguments(self) -> Arguments:
        """The case's arguments in float64, not yet passed to any operator."""
        return self.materials.build("float64")

    @functools.cached_property
    def input_size(self) -> int:
        """How many numbers all tensors hold."""
        return sum(tensor.numel() for tensor in self.arguments.tensors)

    @functools.cached_property
    def is_exhaustive(self) -> bool:
        """Whether a tensor holds consecutive bit patterns."""
        return is_exhaustive(self.materials.case)

    @functools.cached_property
    def holds_special_values(self) -> bool:
        """Whether an input holds NaN or an infinity."""
        return self.materials.holds_special_values

    @functools.cached_property
    def _numbers(self) -> list[np.ndarray[Any, Any]]:
        """The floating-point numbers of each tensor; both parts of complex ones."""
        return [dtypes.real_of(base) for base in self.materials.bases if base.dtype.kind in "fc"]

    @functools.cached_property
    def low_entropy(self) -> bool:
        """Whether a long operand has very few distinct numbers, or one very frequent number: then
        rounding errors add up, and G is n, not √n."""
        for base in self._numbers:
            if base.size > _LOW_ENTROPY:
                sample = base[-4096:]
                if np.unique(sample[sample != 0]).size < _LOW_ENTROPY:
                    return True
                if base.itemsize >= 4 and (
                    _distinct_share(base) < _FEW_KINDS or _largest_share(base) > _COMMON
                ):
                    return True
        pairs = [
            (b, t)
            for b, t in zip(self.materials.bases, self.arguments.tensors, strict=True)
            if b.dtype.kind in "fc"
        ]
        if pairs and all(tensor.numel() >= _LOW_ENTROPY * base.size for base, tensor in pairs):
            return True  # every operand is expanded, and so are the products
        recipes = (*tensors(self.materials.case.args), *tensors(self.materials.case.kwargs))
        return any(
            math.prod(t.base) <= _LOW_ENTROPY and any(step[0] == "expand" for step in t.view)
            for t in recipes
            if isinstance(t, TensorRecipe)
        )

    @functools.cached_property
    def repeats(self) -> bool:
        """Whether an operand's numbers repeat (one frequent number, few integers, overlapping
        views, two operands in the same memory): the errors of results are then correlated."""
        if self.arguments.shared:
            return True
        for base, tensor in zip(self.materials.bases, self.arguments.tensors, strict=True):
            # Narrow formats have few distinct numbers in any case.
            wide = base.dtype.kind in "fc" and base.itemsize >= 4
            numbers = dtypes.real_of(base)
            if wide and (
                tensor.numel() > base.size
                or _distinct_share(numbers) < _VARIED
                or _largest_share(numbers) > _COMMON
            ):
                return True
        return False

    @functools.cached_property
    def ordered_signs(self) -> bool:
        """Whether the signs of an operand depend on the position, so that errors depend strongly
        on the order of summation."""
        recipes = (*tensors(self.materials.case.args), *tensors(self.materials.case.kwargs))
        return any(isinstance(t, TensorRecipe) and t.values[0] == "cancelling" for t in recipes)

    @functools.cached_property
    def relative_range(self) -> float:
        """The largest range of an operand's numbers, relative to the largest of them; infinite
        where it is none."""
        return max((_relative_range(numbers) for numbers in self._numbers), default=0.0)

    @functools.cached_property
    def least_range(self) -> float:
        """The smallest such range of an operand of several numbers."""
        several = (numbers for numbers in self._numbers if numbers.size > 1)
        return min(map(_relative_range, several), default=math.inf)

    @functools.cached_property
    def heavy_tailed(self) -> bool:
        """Whether an operand has a few dominant numbers, after which a partial sum is as large as
        S."""
        for base in self._numbers:
            if base.size > 1:
                size = np.abs(base.astype(np.float64))
                if float(size.max()) > _HEAVY * float(size.mean()):
                    return True
        return False


def _relative_range(numbers: np.ndarray[Any, Any]) -> float:
    if not numbers.size:
        return 0.0
    low, high = float(numbers.min()), float(numbers.max())
    size = max(-low, high)
    return (high - low) / size if 0.0 < size < math.inf else math.inf


def _distinct_share(base: np.ndarray[Any, Any]) -> float:
    """The share of distinct numbers among those that are not 0."""
    present = base[base != 0.0]
    return np.unique(present).size / present.size if present.size else 1.0


def _largest_share(base: np.ndarray[Any, Any]) -> float:
    """The share of the most frequent number among those that are not 0."""
    present = base[base != 0.0]
    return (
        float(np.unique(present, return_counts=True)[1].max()) / present.size
        if present.size
        else 0.0
    )
